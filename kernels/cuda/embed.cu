// Token embedding, plus the learned positions where there are any: a block a token.
//
// Moves D elements of each table and 4 D bytes out, in packs of 4 where the shapes allow.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

template <typename T, int kPack>
__global__ void EmbedKernel(const EmbedArgs a) {
  LetNextStart();
  WaitForInputs();
  const auto t = static_cast<int32_t>(blockIdx.x);
  if (t >= *a.rows.count) return;
  const TokenMeta token = a.tokens[t];
  const T* in = RowOf<T>(a.table, token.id);
  const T* position = a.positions.data == nullptr ? nullptr : RowOf<T>(a.positions, token.position);
  float* out = RowOf<float>(a.out, t);
  const int32_t step = static_cast<int32_t>(blockDim.x) * kPack;
  for (int32_t c = static_cast<int32_t>(threadIdx.x) * kPack; c < a.out.cols; c += step) {
    float values[kPack];
    LoadPack(in + c, values);
    if (position != nullptr) {
      float added[kPack];
      LoadPack(position + c, added);
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] += added[i];
    }
    StorePack(values, out + c);
  }
}

}  // namespace

// Both tables have the compute type.
void EnqueueEmbed(Stream& stream, const EmbedArgs& a) {
  const bool wide = HoldsPacks(a.table, 4) && HoldsPacks(a.positions, 4) && HoldsPacks(a.out, 4);
  WithType(a.table.dtype, [&](auto type) {
    WithPack(wide, [&](auto pack) {
      LaunchKernel(stream, "embed", EmbedKernel<decltype(type), pack>,
                   {a.rows.max, BlockFor(a.out.cols / pack)}, a);
    });
  });
}

}  // namespace rally
