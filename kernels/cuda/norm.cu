// RMSNorm and LayerNorm: a block a row.
//
// Reads 4 D bytes from memory (what a thread reads again comes from the L1 cache) and writes D
// elements. The mean is subtracted before squares are summed, as on the host.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

constexpr int kThreads = 256;

template <typename T, int kPack>
__global__ void __launch_bounds__(kThreads) NormKernel(const NormArgs a) {
  LetNextStart();
  WaitForInputs();
  __shared__ float scratch[kWarp];
  const auto r = static_cast<int32_t>(blockIdx.x);
  if (r >= *a.rows.count) return;
  const int32_t n = a.x.cols;
  const float* x = RowOf<float>(a.x, r);
  T* out = RowOf<T>(a.out, r);
  const auto width = static_cast<float>(n);
  const int32_t first = static_cast<int32_t>(threadIdx.x) * kPack;
  const int32_t step = static_cast<int32_t>(blockDim.x) * kPack;
  float values[kPack];

  float mean = 0;
  if (a.bias != nullptr) {
    float sum = 0;
    for (int32_t c = first; c < n; c += step) {
      LoadPack(x + c, values);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += values[i];
    }
    mean = BlockSum(sum, scratch) / width;
  }
  float squares = 0;
  for (int32_t c = first; c < n; c += step) {
    LoadPack(x + c, values);
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares += (values[i] - mean) * (values[i] - mean);
  }
  const float factor = 1.0f / sqrtf(BlockSum(squares, scratch) / width + a.epsilon);

  for (int32_t c = first; c < n; c += step) {
    float weight[kPack];
    LoadPack(x + c, values);
    LoadPack(a.weight + c, weight);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      values[i] = (values[i] - mean) * factor * weight[i];
      if (a.bias != nullptr) values[i] += a.bias[c + i];
    }
    StorePack(values, out + c);
  }
}

}  // namespace

void EnqueueNorm(Stream& stream, const NormArgs& a) {
  const bool wide =
      HoldsPacks(a.x, 4) && HoldsPacks(a.out, 4) && reinterpret_cast<uintptr_t>(a.weight) % 16 == 0;
  WithType(a.out.dtype, [&](auto type) {
    WithPack(wide, [&](auto pack) {
      LaunchKernel(stream, "norm", NormKernel<decltype(type), pack>,
                   {a.rows.max, BlockFor(a.x.cols / pack, kThreads)}, a);
    });
  });
}

}  // namespace rally
