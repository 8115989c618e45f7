#include "engine/model/hf_foreign_fields.h"

#include <array>
#include <optional>

namespace rally {
namespace {

struct ForeignField {
  const char* name;
  std::optional<double> neutral;  // besides null; false counts as 0, true as 1
};

constexpr auto kForeignFields = std::to_array<ForeignField>({
    // Weights in another form.
    {"quantization_config", {}},
    {"compression_config", {}},
    {"pruned_heads", {}},
    // Another block.
    {"add_cross_attention", 0},
    {"alibi", 0},
    {"apply_residual_connection_post_layernorm", 0},
    {"clip_qkv", {}},
    {"cross_layer_attention", 0},
    {"decoder_sparse_step", 1},
    {"is_causal", 1},
    {"is_encoder_decoder", 0},
    {"kv_lora_rank", {}},
    {"moe_intermediate_size", 0},
    {"n_routed_experts", 0},
    {"num_experts", 0},
    {"num_kv_shared_layers", 0},
    {"num_local_experts", 0},
    {"num_nextn_predict_layers", 0},
    {"parallel_residual", 0},
    {"q_lora_rank", {}},
    {"qk_layernorm", 0},
    {"qk_norm", 0},
    {"use_bidirectional_attention", 0},
    {"use_parallel_residual", 0},
    {"use_qk_norm", 0},
    // Another rotation or mask.
    {"attention_chunk_size", {}},
    {"mrope_section", {}},
    {"no_rope_layer_interval", 0},
    {"no_rope_layers", {}},
    {"partial_rotary_factor", 1},
    {"position_embedding_type", {}},
    {"rope_interleave", 0},
    {"rope_local_base_freq", {}},
    {"rope_pct", 1},
    {"rotary_dim", {}},
    {"rotary_emb_base", {}},
    {"rotary_pct", 1},
    {"sliding_window_pattern", {}},
    // Factors and caps.
    {"attention_multiplier", {}},
    {"attn_logit_softcapping", {}},
    {"dim_model_base", {}},
    {"embedding_multiplier", 1},
    {"final_logit_softcapping", {}},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"mup_width_multiplier", 1},
    {"query_pre_attn_scalar", {}},
    {"residual_multiplier", 1},
    {"scale_depth", {}},
    {"scale_emb", 1},
    {"use_mup", 0},
});

bool IsNeutral(const nlohmann::json& value, const ForeignField& field) {
  if (value.is_structured()) return value.empty();
  if (!field.neutral) return false;
  if (value.is_boolean()) return *field.neutral == (value.get<bool>() ? 1 : 0);
  return value.is_number() && value.get<double>() == *field.neutral;
}

}  // namespace

void RefuseForeignFields(FieldReader& fields) {
  for (const ForeignField& field : kForeignFields) {
    const nlohmann::json* value = fields.Find(field.name);
    if (value != nullptr && !IsNeutral(*value, field)) {
      fields.Unsupported(field.name, "changes what the model computes and is not supported");
    }
  }
}

}  // namespace rally
