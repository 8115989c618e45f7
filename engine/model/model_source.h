// A model before it is on a device: its configuration and one row source a parameter.
//
// Loaders (safetensors directory, GGUF file, dummy) make one; Transformer::Create reads it. The
// loader has already checked that every parameter is there exactly once, with the right shape, and
// that every stored tensor is used or on a named ignore list.
#ifndef RALLY_ENGINE_MODEL_MODEL_SOURCE_H_
#define RALLY_ENGINE_MODEL_MODEL_SOURCE_H_

#include <memory>
#include <vector>

#include "engine/model/model_config.h"
#include "kernels/ops.h"

namespace rally {

// Matrices are (n, k) with y = x W^T, whatever way the file stores them (GPT-2's Conv1D is turned
// round by the loader, GGUF's permuted q and k heads are put back). Vectors are (1, n). Absent
// parameters are null.
struct LayerSource {
  std::unique_ptr<RowSource> attention_norm_weight, attention_norm_bias;  // (1, D)
  std::unique_ptr<RowSource> qkv_weight;                      // (Hq+2Hkv)dh x D: q, k, v
  std::unique_ptr<RowSource> qkv_bias;                        // (1, (Hq+2Hkv)dh)
  std::unique_ptr<RowSource> q_norm_weight, k_norm_weight;    // (1, dh)
  std::unique_ptr<RowSource> attention_output_weight;         // D x Hq dh
  std::unique_ptr<RowSource> attention_output_bias;           // (1, D)
  std::unique_ptr<RowSource> ffn_norm_weight, ffn_norm_bias;  // (1, D)
  std::unique_ptr<RowSource> ffn_up_weight;    // gated: 2F x D, gate rows first; else F x D
  std::unique_ptr<RowSource> ffn_up_bias;      // (1, 2F) or (1, F)
  std::unique_ptr<RowSource> ffn_down_weight;  // D x F
  std::unique_ptr<RowSource> ffn_down_bias;    // (1, D)
};

struct ModelSource {
  ModelConfig config;
  std::unique_ptr<RowSource> token_embedding;     // V x D
  std::unique_ptr<RowSource> position_embedding;  // context x D (learned_positions)
  std::vector<LayerSource> layers;
  std::unique_ptr<RowSource> final_norm_weight, final_norm_bias;  // (1, D)
  std::unique_ptr<RowSource> head_weight;  // V x D; tied_head: reads the token embedding
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_MODEL_SOURCE_H_
