// The activation memory of a step, planned once. Both step parities use the same: a step's ops wait
// for those of the step before.
#ifndef RALLY_ENGINE_MODEL_WORKSPACE_H_
#define RALLY_ENGINE_MODEL_WORKSPACE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "kernels/device/device.h"
#include "kernels/ops.h"

namespace rally {

// T = max_tokens, S = max_samples. "dtype" is the compute type.
struct Workspace {
  static absl::StatusOr<Workspace> Create(Device& device, const ModelConfig& config, DType dtype,
                                          const StepLimits& limits);

  TokenMeta* tokens = nullptr;  // (T)
  Matrix residual;              // (T, D) fp32
  Matrix normed;                // (T, D) dtype
  Matrix qkv;                   // (T, (Hq + 2 Hkv) dh) dtype
  Matrix attended;              // (T, Hq dh) dtype
  Matrix up;                    // (T, 2F or F) dtype
  Matrix activated;             // (T, F) dtype
  Matrix last;                  // (S, D) fp32: the residual of the rows that are sampled
  Matrix last_normed;           // (S, D) dtype
  Matrix logits;                // (S, V) fp32
  std::unique_ptr<Buffer> buffer;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_WORKSPACE_H_
