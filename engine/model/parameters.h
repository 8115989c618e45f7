// A model's parameters on a device.
#ifndef RALLY_ENGINE_MODEL_PARAMETERS_H_
#define RALLY_ENGINE_MODEL_PARAMETERS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"
#include "kernels/device/device.h"
#include "kernels/ops.h"

namespace rally {

// Vectors are fp32 and point into Parameters::vectors; absent ones are null.
struct LayerParameters {
  const float* attention_norm_weight = nullptr;
  const float* attention_norm_bias = nullptr;
  std::unique_ptr<Weight> qkv;
  const float* qkv_bias = nullptr;
  const float* q_norm_weight = nullptr;
  const float* k_norm_weight = nullptr;
  std::unique_ptr<Weight> attention_output;
  const float* attention_output_bias = nullptr;
  const float* ffn_norm_weight = nullptr;
  const float* ffn_norm_bias = nullptr;
  std::unique_ptr<Weight> ffn_up;
  const float* ffn_up_bias = nullptr;
  std::unique_ptr<Weight> ffn_down;
  const float* ffn_down_bias = nullptr;
};

// Called after each matrix that has been loaded: (done, total).
using LoadProgress = std::function<void(int32_t, int32_t)>;

struct Parameters {
  // Reads the source parameter by parameter and frees each, so that no more than one is held twice.
  static absl::StatusOr<Parameters> Load(Device& device, ModelSource source, DType dtype,
                                         const LoadProgress& progress);
  size_t size_bytes() const;

  Matrix token_embedding;     // (V, D) dtype
  Matrix position_embedding;  // (context, D) dtype, or null
  const float* inv_freq = nullptr;
  std::vector<LayerParameters> layers;
  const float* final_norm_weight = nullptr;
  const float* final_norm_bias = nullptr;
  std::unique_ptr<Weight> head;

  std::vector<std::unique_ptr<Buffer>> tables;
  std::unique_ptr<Buffer> vectors;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_PARAMETERS_H_
