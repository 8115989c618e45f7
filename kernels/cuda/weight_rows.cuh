// Which rows of W the tiles of a fused product hold.
#ifndef RALLY_KERNELS_CUDA_WEIGHT_ROWS_CUH_
#define RALLY_KERNELS_CUDA_WEIGHT_ROWS_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

// Row `r` of a tile of kRows rows as a row of W, which has `columns` rows or, gated, as many of the
// gate and then of up. A gated tile holds kRows / 2 rows of the gate and the same ones of up. The
// last tile may reach beyond the end: those results are dropped.
template <int kRows>
__device__ int32_t WeightRow(int32_t tile, int32_t r, int32_t columns, bool gated) {
  if (!gated) return min(tile * kRows + r, columns - 1);
  constexpr int kHalf = kRows / 2;
  return min(tile * kHalf + r % kHalf, columns - 1) + (r < kHalf ? 0 : columns);
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_WEIGHT_ROWS_CUH_
