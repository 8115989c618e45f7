// RMSNorm over each head, in place: a warp a head, whose values stay in its registers.
//
// Reads and writes every value once. Heads of up to 256 values.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / kWarp;

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) HeadNormKernel(const HeadNormArgs a) {
  LetNextStart();
  WaitForInputs();
  const auto t = static_cast<int32_t>(blockIdx.x);
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const auto head =
      static_cast<int32_t>(blockIdx.y) * kWarps + static_cast<int32_t>(threadIdx.x) / kWarp;
  if (t >= *a.rows.count || head >= a.heads) return;
  T* x = RowOf<T>(a.x, t) + a.first_col + int64_t{head} * a.head_dim;
  float values[kPerLane];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int32_t d = lane + i * kWarp;
    values[i] = d < a.head_dim ? ToFloat(x[d]) : 0.0f;
    squares += values[i] * values[i];
  }
  const float factor = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(a.head_dim) + a.epsilon);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int32_t d = lane + i * kWarp;
    if (d < a.head_dim) x[d] = FromFloat<T>(values[i] * factor * a.weight[d]);
  }
}

}  // namespace

void EnqueueHeadNorm(Stream& stream, const HeadNormArgs& a) {
  const dim3 grid(a.rows.max, CeilDiv(a.heads, kWarps));
  WithType(a.x.dtype, [&](auto type) {
    LaunchKernel(stream, "head_norm", HeadNormKernel<decltype(type)>, {grid, kWarps * kWarp}, a);
  });
}

}  // namespace rally
