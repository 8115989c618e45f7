// Collects the rows that are sampled: a block a row, 8 D bytes moved.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

template <int kPack>
__global__ void GatherKernel(const GatherArgs a) {
  LetNextStart();
  WaitForInputs();
  const auto s = static_cast<int32_t>(blockIdx.x);
  if (s >= *a.rows.count) return;
  const float* in = RowOf<float>(a.x, a.samples[s].token_index);
  float* out = RowOf<float>(a.out, s);
  const int32_t step = static_cast<int32_t>(blockDim.x) * kPack;
  for (int32_t c = static_cast<int32_t>(threadIdx.x) * kPack; c < a.x.cols; c += step) {
    float values[kPack];
    LoadPack(in + c, values);
    StorePack(values, out + c);
  }
}

}  // namespace

void EnqueueGather(Stream& stream, const GatherArgs& a) {
  WithPack(HoldsPacks(a.x, 4) && HoldsPacks(a.out, 4), [&](auto pack) {
    LaunchKernel(stream, "gather", GatherKernel<pack>, {a.rows.max, BlockFor(a.x.cols / pack)}, a);
  });
}

}  // namespace rally
