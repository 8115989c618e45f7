// The shape and the mathematics of a decoder, whatever file it came from.
//
// Filled from config.json (Hugging Face) or GGUF metadata. A field that changes the mathematics and
// is not expressed here refuses the load with its name.
#ifndef RALLY_ENGINE_MODEL_MODEL_CONFIG_H_
#define RALLY_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace rally {

enum class NormKind { kLayerNorm, kRmsNorm };

struct ModelConfig {
  std::string architecture;  // "gpt2", "llama", "mistral", "qwen2", "qwen3"
  int32_t layers = 0;
  int32_t width = 0;       // D
  int32_t ffn_width = 0;   // F
  int32_t q_heads = 0;     // Hq
  int32_t kv_heads = 0;    // Hkv; divides Hq
  int32_t head_dim = 0;    // dh; a multiple of 8, at most 256
  int32_t vocab_size = 0;  // V, rows of the embedding
  int32_t context_length = 0;

  NormKind norm = NormKind::kRmsNorm;
  float norm_epsilon = 1e-5f;
  bool learned_positions = false;  // GPT-2; else RoPE
  int32_t rotary_dim = 0;          // RoPE: leading values of a head that rotate
  std::vector<float> inv_freq;     // (rotary_dim / 2), scaling already applied
  float rope_scale = 1;            // attention factor of the scaling kind
  bool qk_norm = false;            // RMSNorm on each q and k head (Qwen3)
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool ffn_bias = false;
  ActivationKind activation = ActivationKind::kSilu;
  bool gated = true;                   // act(gate) * up
  bool tied_head = false;              // the head is the token embedding
  std::vector<int32_t> window;         // (layers) sliding window of each layer, 0: none
  std::vector<float> attention_scale;  // (layers) factor of q·k, usually 1 / sqrt(dh)

  std::vector<int32_t> eos_ids;  // union of config.json and generation_config.json, or GGUF
  int32_t bos_id = -1;

  // generation_config.json, where it says anything
  bool has_temperature = false;
  float temperature = 1;
  bool has_top_p = false;
  float top_p = 1;
  bool has_top_k = false;
  int32_t top_k = 0;

  int32_t q_width() const { return q_heads * head_dim; }
  int32_t kv_width() const { return kv_heads * head_dim; }
  int32_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_MODEL_CONFIG_H_
