// A Hugging Face directory as a ModelSource.
#ifndef RALLY_ENGINE_MODEL_HF_SOURCE_H_
#define RALLY_ENGINE_MODEL_HF_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_assembly.h"
#include "engine/model/model_source.h"

namespace rally {

// config.json, generation_config.json and safetensors files. Ignored, by exact name: GPT-2's stored
// causal masks (attn.bias, attn.masked_bias) and Llama's stored rotary_emb.inv_freq.
absl::StatusOr<ModelSource> OpenHuggingFaceModel(const std::string& directory);

// Names of an architecture's parameters. `gpt2_prefix` is "transformer." or "".
TensorNames HuggingFaceNames(const std::string& architecture, const std::string& gpt2_prefix);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_HF_SOURCE_H_
