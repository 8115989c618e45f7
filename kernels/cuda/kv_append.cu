// Writes each token's K and V into its sequence's block: a block a token.
//
// Moves 2 Hkv dh elements a token each way, in packs of 4 (head sizes are multiples of 8).
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/kv_address.cuh"

namespace rally {
namespace {

template <typename From, typename To, int kPack>
__global__ void KvAppendKernel(const KvAppendArgs a) {
  LetNextStart();
  WaitForInputs();
  const auto t = static_cast<int32_t>(blockIdx.x);
  if (t >= *a.rows.count) return;
  const TokenMeta token = a.tokens[t];
  const int32_t dh = a.kv.head_dim;
  const int32_t side = a.kv.kv_heads * dh;
  const From* in = RowOf<From>(a.qkv, t) + int64_t{a.q_heads} * dh;
  const int32_t step = static_cast<int32_t>(blockDim.x) * kPack;
  for (int32_t c = static_cast<int32_t>(threadIdx.x) * kPack; c < 2 * side; c += step) {
    const bool value = c >= side;
    const int32_t within = value ? c - side : c;
    const KvHead<To> head(a.kv, a.tables, a.layer, token.slot, within / dh);
    To* out = head.At(token.position) + (value ? head.value_offset : 0) + within % dh;
    float values[kPack];
    LoadPack(in + c, values);
    StorePack(values, out);
  }
}

}  // namespace

void EnqueueKvAppend(Stream& stream, const KvAppendArgs& a) {
  WithType(a.qkv.dtype, [&](auto from) {
    WithType(a.kv.dtype, [&](auto to) {
      WithPack(HoldsPacks(a.qkv, 4), [&](auto pack) {
        LaunchKernel(stream, "kv_append", KvAppendKernel<decltype(from), decltype(to), pack>,
                     {a.rows.max, BlockFor(2 * a.kv.kv_heads * a.kv.head_dim / pack)}, a);
      });
    });
  });
}

}  // namespace rally
