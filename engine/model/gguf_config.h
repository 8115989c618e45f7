// GGUF metadata as a ModelConfig, and its tokenizer section.
#ifndef RALLY_ENGINE_MODEL_GGUF_CONFIG_H_
#define RALLY_ENGINE_MODEL_GGUF_CONFIG_H_

#include "absl/status/statusor.h"
#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "engine/text/gguf_vocabulary.h"

namespace rally {

// Architectures llama (Mistral too), qwen2, qwen3 and gpt2. A key of the architecture's own
// section ("llama.*") that is not on the list of known ones refuses the load: the section holds
// nothing but what shapes the computation. Biases and the tied head follow from the tensors that
// are there; rope_freqs.weight (Llama 3) divides inv_freq.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& gguf);

// tokenizer.ggml.*, with the types checked and the contents not.
absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufFile& gguf);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_CONFIG_H_
