#include "engine/model/hf_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/hf_config.h"
#include "engine/model/safetensors_model.h"

namespace rally {
namespace {

TensorNames Gpt2Names(const std::string& prefix) {
  return {.token_embedding = prefix + "wte",
          .position_embedding = prefix + "wpe",
          .final_norm = prefix + "ln_f",
          .head = "lm_head",
          .layers = prefix + "h.",
          .attention_norm = "ln_1",
          .attention_output = "attn.c_proj",
          .ffn_norm = "ln_2",
          .ffn_up = "mlp.c_fc",
          .ffn_down = "mlp.c_proj",
          .qkv = "attn.c_attn",
          .transposed = true};
}

TensorNames RotaryNames() {
  return {.token_embedding = "model.embed_tokens",
          .final_norm = "model.norm",
          .head = "lm_head",
          .layers = "model.layers.",
          .attention_norm = "input_layernorm",
          .attention_output = "self_attn.o_proj",
          .ffn_norm = "post_attention_layernorm",
          .ffn_up = "mlp.up_proj",
          .ffn_down = "mlp.down_proj",
          .q = "self_attn.q_proj",
          .k = "self_attn.k_proj",
          .v = "self_attn.v_proj",
          .q_norm = "self_attn.q_norm",
          .k_norm = "self_attn.k_norm",
          .ffn_gate = "mlp.gate_proj"};
}

// Buffers that older versions of transformers stored among the parameters.
void IgnoreBuffers(const ModelConfig& config, const TensorNames& names, TensorSet& tensors) {
  for (int32_t i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat(names.layers, i, ".");
    if (config.architecture == "gpt2") {
      tensors.Ignore(layer + "attn.bias");
      tensors.Ignore(layer + "attn.masked_bias");
    } else {
      tensors.Ignore(layer + "self_attn.rotary_emb.inv_freq");
    }
  }
}

}  // namespace

TensorNames HuggingFaceNames(const std::string& architecture, const std::string& gpt2_prefix) {
  return architecture == "gpt2" ? Gpt2Names(gpt2_prefix) : RotaryNames();
}

absl::StatusOr<ModelSource> OpenHuggingFaceModel(const std::string& directory) {
  RALLY_ASSIGN_OR_RETURN(ModelConfig config, ReadHuggingFaceConfig(directory));
  RALLY_ASSIGN_OR_RETURN(TensorSet tensors, OpenSafetensorsModel(directory));
  // The published GPT-2 files hold the bare model, others the model with its head.
  const std::string prefix = tensors.Has("wte.weight") ? "" : "transformer.";
  const TensorNames names = HuggingFaceNames(config.architecture, prefix);
  IgnoreBuffers(config, names, tensors);
  RALLY_ASSIGN_OR_RETURN(ModelSource model, AssembleModel(std::move(config), names, tensors));
  RALLY_RETURN_IF_ERROR(tensors.CheckAllUsed());
  return model;
}

}  // namespace rally
