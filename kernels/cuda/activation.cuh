// The activation functions, in fp32.
#ifndef RALLY_KERNELS_CUDA_ACTIVATION_CUH_
#define RALLY_KERNELS_CUDA_ACTIVATION_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

__device__ inline float Activate(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case ActivationKind::kGeluErf:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ActivationKind::kRelu:
      return x <= 0.0f ? 0.0f : x;  // a NaN stays one
    case ActivationKind::kSilu:
      return x / (1.0f + expf(-x));
  }
  return x;
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ACTIVATION_CUH_
