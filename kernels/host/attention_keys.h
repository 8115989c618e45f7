// Tiles of keys or values, in fp32, for both ways of attention.
#ifndef RALLY_KERNELS_HOST_ATTENTION_KEYS_H_
#define RALLY_KERNELS_HOST_ATTENTION_KEYS_H_

#include <algorithm>
#include <limits>

#include "kernels/host/attention_tile.h"
#include "kernels/host/kv_address.h"
#include "kernels/host/simd.h"

namespace rally {

inline constexpr int32_t kTileKeys = 64;
// Below every score and not infinite: the maximum before the first key, so that a tile that a
// query does not see at all leaves that query alone (exp(-Inf - kNoMax) = 0).
inline constexpr float kNoMax = -1e30f;
inline constexpr float kMasked = -std::numeric_limits<float>::infinity();

constexpr int32_t PaddedDim(int32_t head_dim) { return (head_dim + kLanes - 1) / kLanes * kLanes; }

// First position that the query at `position` sees.
RALLY_INLINE int32_t FirstVisible(const AttentionArgs& a, int32_t position) {
  return a.window > 0 ? std::max(0, position - a.window + 1) : 0;
}

// `count` rows of dh values that lie end to end.
template <typename T>
RALLY_INLINE void LoadRows(const T* in, int32_t count, int32_t dh, float* tile) {
  const int32_t stride = PaddedDim(dh);
  for (int32_t j = 0; j < count; ++j, in += dh, tile += stride) {
    int32_t i = 0;
    for (; i + kLanes <= dh; i += kLanes) {
      V16 v;
      Load(in + i, &v);
      Store(v, tile + i);
    }
    for (; i < dh; ++i) tile[i] = ToFloat(in[i]);
    for (; i < stride; ++i) tile[i] = 0;
  }
}

// Block by block: the positions of one block lie end to end.
template <typename T>
RALLY_INLINE void LoadTileOf(const AttentionArgs& a, const AttentionItem& item, KvSide side,
                             int32_t begin, int32_t count, float* tile) {
  const int32_t dh = a.kv.head_dim;
  for (int32_t done = 0; done < count;) {
    const int32_t position = begin + done;
    const int32_t run = std::min(count - done, a.kv.block_tokens - position % a.kv.block_tokens);
    LoadRows(KvAddress<T>(a.kv, item.block_table, a.layer, side, item.kv_head, position), run, dh,
             tile + done * PaddedDim(dh));
    done += run;
  }
}

// Positions [begin, begin + count) to tile (count, PaddedDim), the padding zero.
RALLY_INLINE void LoadTile(const AttentionArgs& a, const AttentionItem& item, KvSide side,
                           int32_t begin, int32_t count, float* tile) {
  if (a.kv.dtype == DType::kF32) {
    LoadTileOf<float>(a, item, side, begin, count, tile);
  } else {
    LoadTileOf<BFloat16>(a, item, side, begin, count, tile);
  }
}

// Calls fn(query number, its values in qkv, its place in out), both as pointers to elements.
template <typename From, typename To, typename Fn>
RALLY_INLINE void ForEachQuery(const AttentionArgs& a, const AttentionItem& item, const Fn& fn) {
  for (int32_t t = 0; t < item.tokens; ++t) {
    for (int32_t h = 0; h < item.heads; ++h) {
      const int64_t col = int64_t{item.first_head + h} * a.kv.head_dim;
      fn(t * item.heads + h, a.qkv.row<From>(item.first_token + t) + col,
         a.out.row<To>(item.first_token + t) + col);
    }
  }
}

template <typename Fn>
RALLY_INLINE void ForEachQueryAnyType(const AttentionArgs& a, const AttentionItem& item,
                                      const Fn& fn) {
  WithType(
      a.qkv.dtype, [&](auto from) __attribute__((always_inline)) {
        WithType(
            a.out.dtype, [&](auto to) __attribute__((always_inline)) {
              ForEachQuery<decltype(from), decltype(to)>(a, item, fn);
            });
      });
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_ATTENTION_KEYS_H_
