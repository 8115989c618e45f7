// Where a position's K or V lies in the paged cache (layout: KvCacheView in kernels/ops.h).
#ifndef RALLY_KERNELS_CUDA_KV_ADDRESS_CUH_
#define RALLY_KERNELS_CUDA_KV_ADDRESS_CUH_

#include "kernels/ops.h"

namespace rally {

// log2 of a power of two, else -1.
__device__ inline int32_t ShiftOf(int32_t n) { return (n & (n - 1)) == 0 ? __ffs(n) - 1 : -1; }

// One KV head of one layer, on the device: all that is fixed for a block of threads is computed
// once. Block sizes are mostly powers of two, for which a shift replaces the division.
template <typename T>
struct KvHead {
  __device__ KvHead(const KvCacheView& kv, const SlotTables& tables, int32_t layer, int32_t slot,
                    int32_t head)
      : table(tables.block_tables + int64_t{slot} * tables.max_blocks_per_slot),
        value_offset(int64_t{kv.block_tokens} * kv.head_dim * kv.kv_heads),
        block_elements(2 * value_offset * kv.layers),
        keys(reinterpret_cast<T*>(kv.base) + 2 * value_offset * layer +
             int64_t{kv.block_tokens} * kv.head_dim * head),
        block_tokens(kv.block_tokens),
        head_dim(kv.head_dim),
        shift(ShiftOf(kv.block_tokens)) {}

  // The head_dim key values of `position`; the values lie value_offset elements on.
  __device__ T* At(int32_t position) const {
    const int32_t index = shift >= 0 ? position >> shift : position / block_tokens;
    return keys + table[index] * block_elements +
           int64_t{position - index * block_tokens} * head_dim;
  }

  const int32_t* table;
  int64_t value_offset;
  int64_t block_elements;
  T* keys;
  int32_t block_tokens;
  int32_t head_dim;
  int32_t shift;
};

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_KV_ADDRESS_CUH_
