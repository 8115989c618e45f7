// BPE as SentencePiece does it (Kudo and Richardson, 2018): over code points, blanks written as
// "▁" (U+2581), code points outside the vocabulary as bytes. Llama 2, TinyLlama, Mistral.
#ifndef RALLY_ENGINE_TEXT_SENTENCEPIECE_BPE_H_
#define RALLY_ENGINE_TEXT_SENTENCEPIECE_BPE_H_

#include <array>
#include <memory>
#include <optional>

#include "engine/text/bpe_tokenizer.h"

namespace rally {

inline constexpr std::string_view kBlankPiece = "\xE2\x96\x81";  // "▁"

struct SentencePieceBpeOptions {
  // Where a blank is put before a text, so that its first word looks like every other word.
  enum class DummyPrefix {
    kNever,
    kEveryStretch,  // before each stretch between added tokens (GGUF, Prepend normaliser)
    kEveryStretchUnlessBlank,  // ... that does not begin with one (Metaspace "always")
    kTextUnlessBlank,          // before the whole text, if it does not (Metaspace "first")
  };
  DummyPrefix dummy_prefix = DummyPrefix::kEveryStretch;
  bool split_at_blanks = false;  // Metaspace's split: no piece reaches over a blank
  bool ignore_merges = false;    // a cut-out piece that is in the vocabulary is never cut further
  bool byte_fallback = true;
  // Stands for what neither pieces nor bytes can spell; without it that is left out.
  std::optional<int32_t> unknown_id = std::nullopt;
  bool fuse_unknown = true;     // neighbouring unknown code points are one unknown token
  bool strip_on_decode = true;  // Decode takes one leading blank off the text
};

// In the vocabulary "▁Hello" is " Hello" and <0x0A> is a line feed. So Decode() takes off the one
// blank that the dummy prefix put there, while an incremental detokeniser keeps it: there the text
// goes on from a prompt.
class SentencePieceBpe final : public BpeTokenizer {
 public:
  SentencePieceBpe(BpeParts parts, const SentencePieceBpeOptions& options);
  std::string Decode(std::span<const int32_t> ids, bool keep_special) const override;

 private:
  void EncodeStretch(std::string_view text, bool at_start, BpeMerger& merger,
                     std::vector<int32_t>& ids) const override;
  void EncodePiece(std::string_view piece, BpeMerger& merger, std::vector<int32_t>& ids) const;
  bool AppendBytes(std::string_view code_point, std::vector<int32_t>& symbols) const;

  const SentencePieceBpeOptions options_;
  std::array<int32_t, 256> byte_ids_;  // -1: not in the vocabulary
};

// The byte that a piece such as "<0x0A>" spells.
std::optional<char> ByteOfBytePiece(std::string_view piece);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_SENTENCEPIECE_BPE_H_
