// Where a position's K or V lies in the paged cache (layout: KvCacheView in kernels/ops.h).
#ifndef RALLY_KERNELS_HOST_KV_ADDRESS_H_
#define RALLY_KERNELS_HOST_KV_ADDRESS_H_

#include "kernels/ops.h"

namespace rally {

enum class KvSide : int32_t { kKey = 0, kValue = 1 };

// The head_dim values of `position`, of the sequence with this block table.
template <typename T>
T* KvAddress(const KvCacheView& kv, const int32_t* block_table, int32_t layer, KvSide side,
             int32_t kv_head, int32_t position) {
  const int64_t block = block_table[position / kv.block_tokens];
  return reinterpret_cast<T*>(kv.base) + block * kv.block_elements() +
         (int64_t{layer} * 2 + static_cast<int32_t>(side)) * kv.side_elements() +
         kv_head * kv.head_elements() + int64_t{position % kv.block_tokens} * kv.head_dim;
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_KV_ADDRESS_H_
