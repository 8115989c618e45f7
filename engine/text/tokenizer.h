// Text to token ids and back. Implementations: ByteLevelBpe (GPT-2, Llama 3, Qwen, SmolLM) and
// SentencePieceBpe (Llama 2, Mistral, TinyLlama). Read-only after loading: any thread may call.
#ifndef RALLY_ENGINE_TEXT_TOKENIZER_H_
#define RALLY_ENGINE_TEXT_TOKENIZER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/vocabulary.h"

namespace rally {

struct EncodeOptions {
  // Special tokens that the tokenizer itself adds (BOS, as its file says).
  bool add_special_tokens = true;
  // Control tokens spelled out in the text become their ids. Off: they are plain text, so that a
  // user cannot forge a turn.
  bool parse_special_tokens = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Invalid UTF-8: each maximal invalid part is read as U+FFFD (the Unicode Standard, 3.9, table
  // 3-8), before anything else. O(n log n) in the bytes of the text, whatever the text is.
  virtual std::vector<int32_t> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // The whole text of a list of ids; special tokens are left out unless `keep_special`. Incomplete
  // or invalid UTF-8 becomes U+FFFD by the same rule.
  virtual std::string Decode(std::span<const int32_t> ids, bool keep_special) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // End-of-text ids that the tokenizer's own files name; may be empty.
  virtual const std::vector<int32_t>& eos_ids() const = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_TOKENIZER_H_
