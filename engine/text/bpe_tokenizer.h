// What the two kinds of BPE tokenizers share: added tokens, the ids around a text, decoding.
#ifndef RALLY_ENGINE_TEXT_BPE_TOKENIZER_H_
#define RALLY_ENGINE_TEXT_BPE_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/text/added_tokens.h"
#include "engine/text/bpe_merge.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace rally {

// A tokenizer's data as every loader makes it. All ids are in [0, tokens.size()).
struct BpeParts {
  std::vector<Vocabulary::Token> tokens;
  // The pieces that byte pair encoding makes: raw bytes for a byte-level tokenizer, text with
  // "▁" for blanks and "<0xNN>" for bytes for a SentencePiece one. No control tokens.
  absl::flat_hash_map<std::string, int32_t> piece_ids;
  MergeTable merges;
  std::vector<AddedToken> added_tokens;
  std::vector<int32_t> prefix_ids;  // before the text (BOS), with add_special_tokens
  std::vector<int32_t> suffix_ids;  // after it
  std::vector<int32_t> eos_ids;
};

class BpeTokenizer : public Tokenizer {
 public:
  // Texts are limited to 2^31 - 1 bytes. With `parse_special_tokens` off, control tokens in the
  // text are plain text; other added tokens are found always.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const final;
  std::string Decode(std::span<const int32_t> ids, bool keep_special) const override;
  const Vocabulary& vocabulary() const final { return vocabulary_; }
  const std::vector<int32_t>& eos_ids() const final { return eos_ids_; }

 protected:
  using Normalizer = std::function<std::string(std::string_view valid_text)>;

  // An empty `normalizer` leaves text as it is.
  BpeTokenizer(BpeParts parts, Normalizer normalizer);

  // Encodes a stretch of normalised text without added tokens; it is not empty. `at_start`: it is
  // the beginning of the whole text.
  virtual void EncodeStretch(std::string_view text, bool at_start, BpeMerger& merger,
                             std::vector<int32_t>& ids) const = 0;
  const absl::flat_hash_map<std::string, int32_t>& piece_ids() const { return piece_ids_; }

 private:
  void EncodeNormalized(std::string_view text, bool at_start, bool parse_special, BpeMerger& merger,
                        std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  absl::flat_hash_map<std::string, int32_t> piece_ids_;
  MergeTable merges_;
  std::vector<int32_t> prefix_ids_;
  std::vector<int32_t> suffix_ids_;
  std::vector<int32_t> eos_ids_;
  Normalizer normalizer_;
  AddedTokenMatcher added_in_text_;
  AddedTokenMatcher added_in_normalized_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_BPE_TOKENIZER_H_
