// Byte-level BPE: GPT-2, Llama 3, Qwen2 to Qwen3, SmolLM (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019, section 2.2).
#ifndef RALLY_ENGINE_TEXT_BYTE_LEVEL_BPE_H_
#define RALLY_ENGINE_TEXT_BYTE_LEVEL_BPE_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/bpe_tokenizer.h"
#include "engine/text/pre_tokenizer.h"

namespace rally {

struct ByteLevelBpeOptions {
  std::vector<SplitRule> split_rules = {SplitRule::kGpt2};
  bool nfc = false;               // normalise the text first
  bool ignore_merges = false;     // a cut-out piece that is in the vocabulary is never cut further
  bool add_prefix_space = false;  // a text that begins without a blank gets one
  // Stands for a byte that the vocabulary lacks; without it such a byte is left out of the text.
  std::optional<int32_t> unknown_id = std::nullopt;
  bool fuse_unknown = false;  // neighbouring unknown bytes are one unknown token
};

class ByteLevelBpe final : public BpeTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<ByteLevelBpe>> Create(BpeParts parts,
                                                              const ByteLevelBpeOptions& options);

 private:
  ByteLevelBpe(BpeParts parts, const ByteLevelBpeOptions& options, PreTokenizer pre_tokenizer);
  void EncodeStretch(std::string_view text, bool at_start, BpeMerger& merger,
                     std::vector<int32_t>& ids) const override;

  void EncodePiece(std::string_view piece, BpeMerger& merger, std::vector<int32_t>& symbols,
                   std::vector<int32_t>& ids) const;

  const ByteLevelBpeOptions options_;
  const PreTokenizer pre_tokenizer_;
  std::array<int32_t, 256> byte_ids_;  // -1: not in the vocabulary
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_BYTE_LEVEL_BPE_H_
