#include "kernels/host/host_ops.h"
#include "kernels/host/kv_address.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

template <typename From, typename To>
void AppendToken(const KvAppendArgs& a, int64_t t) {
  const TokenMeta& token = a.tokens[t];
  const int32_t dh = a.kv.head_dim;
  const int32_t* table = a.tables.block_tables + int64_t{token.slot} * a.tables.max_blocks_per_slot;
  const From* in = a.qkv.row<From>(t) + int64_t{a.q_heads} * dh;
  for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
    for (int32_t h = 0; h < a.kv.kv_heads; ++h, in += dh) {
      To* out = KvAddress<To>(a.kv, table, a.layer, side, h, token.position);
      for (int32_t i = 0; i < dh; ++i) out[i] = FromFloat<To>(ToFloat(in[i]));
    }
  }
}

}  // namespace

void RunKvAppend(const KvAppendArgs& a) {
  const int64_t elements = int64_t{*a.rows} * a.kv.kv_heads * a.kv.head_dim * 2;
  ParallelFor(*a.rows, elements, [&](int64_t t) {
    WithType(a.qkv.dtype, [&](auto from) {
      WithType(a.kv.dtype, [&](auto to) { AppendToken<decltype(from), decltype(to)>(a, t); });
    });
  });
}

}  // namespace rally
