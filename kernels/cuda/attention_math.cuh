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

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_MATH_CUH_
