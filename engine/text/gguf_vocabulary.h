// A tokenizer out of the `tokenizer.ggml.*` metadata of a GGUF file.
#ifndef RALLY_ENGINE_TEXT_GGUF_VOCABULARY_H_
#define RALLY_ENGINE_TEXT_GGUF_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace rally {

// The metadata as the file has it; each field is named after its key. Absent ids are -1, absent
// lists are empty.
struct GgufVocabulary {
  std::string model;  // "gpt2": byte-level BPE; "llama": SentencePiece BPE
  std::string pre;    // names the pre-tokeniser of "gpt2" models
  std::vector<std::string> tokens;
  std::vector<float> scores;         // "llama": one a token
  std::vector<int32_t> token_types;  // one a token, or none
  std::vector<std::string> merges;   // "gpt2": "left right", by rank
  int32_t bos_id = -1;
  int32_t eos_id = -1;
  int32_t unknown_id = -1;
  bool has_add_bos = false;
  bool add_bos = false;
  bool add_eos = false;
  bool has_add_space_prefix = false;
  bool add_space_prefix = false;  // "llama" only
};

// Rules, as llama.cpp has them where the file does not say:
// - BOS comes first if `add_bos`; by default for "llama" and for the Llama 3 pre-tokeniser;
// - a blank comes before the text of a "llama" model unless `add_space_prefix` is false;
// - CONTROL and UNKNOWN tokens are special, USER_DEFINED ones are always found in the text;
// - end ids are `eos_id` and every CONTROL token spelled as one of the known ends of a turn or
//   text: <|endoftext|>, <|end_of_text|>, <|eot_id|>, <|eom_id|>, <|im_end|>, <|end|>,
//   <end_of_turn>.
// Qwen's pre-tokenisers normalise to NFC as the original tokenizers do; GGUF does not say.
// UNIMPLEMENTED for another model or pre-tokeniser; every error names the key.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufVocabulary& gguf);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_GGUF_VOCABULARY_H_
