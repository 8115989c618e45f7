// What both ways of attention share.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_MATH_CUH_
#define RALLY_KERNELS_CUDA_ATTENTION_MATH_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

// Below every score and not infinite: the maximum before the first key, so that keys that a query
// does not see leave it alone (exp(-Inf - kNoMax) = 0).
inline constexpr float kNoMax = -1e30f;

// First position that the query at `position` sees.
__device__ inline int32_t FirstVisible(int32_t window, int32_t position) {
  return window > 0 ? max(0, position - window + 1) : 0;
}

// Element `i`, for values that are read or written once a block.
__device__ inline float LoadAny(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return ToFloat(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::kF16:
      return ToFloat(static_cast<const __half*>(data)[i]);
  }
  return 0;
}

__device__ inline void StoreAny(DType dtype, void* data, int64_t i, float value) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = value;
      return;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[i] = FromFloat<__nv_bfloat16>(value);
      return;
    case DType::kF16:
      static_cast<__half*>(data)[i] = FromFloat<__half>(value);
      return;
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_MATH_CUH_
