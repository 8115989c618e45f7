// The angle of a rotary pair.
#ifndef RALLY_KERNELS_CUDA_ROTATION_CUH_
#define RALLY_KERNELS_CUDA_ROTATION_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

// (cosine, sine) times `scale`. Full-range sincosf: positions reach 10^5 and more, where the fast
// intrinsics lose every digit.
__device__ inline float2 RotationOf(int32_t position, float inv_freq, float scale) {
  float sine, cosine;
  sincosf(static_cast<float>(position) * inv_freq, &sine, &cosine);
  return {cosine * scale, sine * scale};
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ROTATION_CUH_
