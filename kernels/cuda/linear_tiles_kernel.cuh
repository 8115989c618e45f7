// The kernel of the fused product: norm, product, bias, activation or gate, residual.
//
// The warps share the depth (and where a tile has 64 rows, its halves); their sums meet in shared
// memory. Where several blocks share the depth of a tile they are a cluster and read each other's
// sums, each finishing some of the rows. All sums are fp32 and added in a fixed order.
#ifndef RALLY_KERNELS_CUDA_LINEAR_TILES_KERNEL_CUH_
#define RALLY_KERNELS_CUDA_LINEAR_TILES_KERNEL_CUH_

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/linear_tiles_input.cuh"

namespace rally {

// x (kWarpRows, 32) times W (kColumns, 32), both from shared memory, at byte `at` of their rows.
template <typename T, typename Tile>
__device__ void MultiplyStep(const unsigned char* x, const unsigned char* w, int32_t pitch,
                             float (&sums)[Tile::kWarpRows / 16][Tile::kColumns / 8][4]) {
  constexpr int kRowTiles = Tile::kWarpRows / 16;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  uint32_t left[kRowTiles][2][4];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Tiles in the order of the operand: rows, then rows + 8, then the next 8 of the depth.
      const int32_t r = i * 16 + lane % 16;
      LoadTiles(x + r * pitch + half * 32 + lane / 16 * 16, left[i][half]);
    }
  }
#pragma unroll
  for (int j = 0; j < Tile::kColumns / 8; ++j) {
    uint32_t right[4];
    LoadTiles(w + (j * 8 + lane % 8) * pitch + lane / 8 * 16, right);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      MultiplyTile<T>(sums[i][j], left[i][0], {right[0], right[1]});
      MultiplyTile<T>(sums[i][j], left[i][1], {right[2], right[3]});
    }
  }
}

// This warp's sums to its part of `partial`.
template <typename Tile>
__device__ void StorePartial(const float (&sums)[Tile::kWarpRows / 16][Tile::kColumns / 8][4],
                             float* partial) {
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  float* part = partial + warp / Tile::kRowWarps * Tile::kRows * Tile::kPartialPitch;
  const int32_t first = warp % Tile::kRowWarps * Tile::kWarpRows + lane / 4;
#pragma unroll
  for (int i = 0; i < Tile::kWarpRows / 16; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kColumns / 8; ++j) {
      float* out = part + (first + i * 16) * Tile::kPartialPitch + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(out) = {sums[i][j][0], sums[i][j][1]};
      *reinterpret_cast<float2*>(out + 8 * Tile::kPartialPitch) = {sums[i][j][2], sums[i][j][3]};
    }
  }
}

template <typename T, typename Tile>
__device__ void MultiplyTiles(const LinearTileArgs& a, const LinearShared<Tile>& s,
                              const unsigned char* weights, int32_t depth) {
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const int32_t pitch = LinearPitch(a.depth);
  const unsigned char* x = s.x + warp % Tile::kRowWarps * Tile::kWarpRows * pitch;
  float sums[Tile::kWarpRows / 16][Tile::kColumns / 8][4] = {};
  for (int32_t at = warp / Tile::kRowWarps * kLinearDepthStep; at < depth;
       at += Tile::kDepthWarps * kLinearDepthStep) {
    MultiplyStep<T, Tile>(x + at * 2, weights + at * 2, pitch, sums);
  }
  if (a.weight_tiles == 1) __syncthreads();  // the sums go where x and W are
  StorePartial<Tile>(sums, s.partial);
}

// The sum of one element over the warps of all blocks that share it, in their order.
template <typename Tile>
__device__ float SumPartials(float* partial, int32_t shares, int32_t row, int32_t column) {
  float y = 0;
  for (int32_t rank = 0; rank < shares; ++rank) {
    const float* part = shares == 1 ? partial : InBlockOfCluster(partial, rank);
#pragma unroll
    for (int w = 0; w < Tile::kDepthWarps; ++w) {
      y += part[(w * Tile::kRows + row) * Tile::kPartialPitch + column];
    }
  }
  return y;
}

__device__ inline void StoreResult(const LinearTileArgs& a, int32_t row, int32_t column, float y) {
  const int64_t i = int64_t{row} * a.out.stride + column;
  if (a.accumulate != 0) y += LoadAny(a.out.dtype, a.out.data, i);
  StoreAny(a.out.dtype, a.out.data, i, y);
}

// The elements of a tile that this block finishes, for each: fn(row of the tile, column of it).
// Neighbours in a row belong to neighbouring threads.
template <typename Tile, typename Fn>
__device__ void ForElements(const LinearTileArgs& a, int32_t first_row, int32_t count, int32_t tile,
                            const Fn& fn) {
  const int32_t width = a.gated != 0 ? Tile::kColumns / 2 : Tile::kColumns;
  const auto shares = static_cast<int32_t>(gridDim.z);
  const int32_t rows = Tile::kRows / shares;
  const int32_t begin = static_cast<int32_t>(blockIdx.z) * rows;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows * width; i += kLinearThreads) {
    const int32_t row = begin + i / width;
    const int32_t column = i % width;
    if (first_row + row < count && tile * width + column < a.columns) fn(row, column);
  }
}

template <typename Tile>
__device__ void FinishTile(const LinearTileArgs& a, const LinearShared<Tile>& s, int32_t first_row,
                           int32_t count, int32_t tile) {
  const auto shares = static_cast<int32_t>(gridDim.z);
  const int32_t width = a.gated != 0 ? Tile::kColumns / 2 : Tile::kColumns;
  ForElements<Tile>(a, first_row, count, tile, [&](int32_t row, int32_t column) {
    const int32_t out_column = tile * width + column;
    float y = SumPartials<Tile>(s.partial, shares, row, column);
    if (a.bias != nullptr) y += a.bias[out_column];
    if (a.activated != 0) y = Activate(a.activation, y);
    if (a.gated != 0) {
      float up = SumPartials<Tile>(s.partial, shares, row, column + width);
      if (a.bias != nullptr) up += a.bias[a.columns + out_column];
      y *= up;
    }
    StoreResult(a, first_row + row, out_column, y);
  });
}

// What is added to comes into L1 while the product runs.
template <typename Tile>
__device__ void PrefetchResidual(const LinearTileArgs& a, int32_t first_row, int32_t count,
                                 int32_t tile) {
  if (a.accumulate == 0) return;
  ForElements<Tile>(a, first_row, count, tile, [&](int32_t row, int32_t column) {
    PrefetchL1(RowOf<float>(a.out, first_row + row) + tile * Tile::kColumns + column);
  });
}

// Grid: (column tiles, or blocks that walk over them; row tiles; shares of the depth, a cluster).
template <typename T, typename Tile>
__global__ void __launch_bounds__(kLinearThreads, 1) LinearTilesKernel(const LinearTileArgs a) {
  const LinearShared<Tile> s(a, DynamicShared());
  const DepthShare share(a);
  const bool clustered = gridDim.z > 1;
  const auto first_row = static_cast<int32_t>(blockIdx.y) * Tile::kRows;
  auto tile = static_cast<int32_t>(blockIdx.x);
  LetNextStart();
  StageWeights<T, Tile>(a, share, tile, s.weight_tile(a, 0));
  WaitForInputs();
  const int32_t count = min(*a.rows.count, a.rows.max);
  if (first_row >= count) return;
  PrefetchResidual<Tile>(a, first_row, count, tile);
  if (a.norm_weight != nullptr) {
    StageNormed<T, Tile>(a, first_row, count, s.x);
  } else {
    StagePlain<T, Tile>(a, share, first_row, count, s.x);
  }
  CommitCopies();
  for (int32_t i = 0; tile < a.column_tiles; ++i) {
    const int32_t next = tile + static_cast<int32_t>(gridDim.x);
    if (next < a.column_tiles) {
      StageWeights<T, Tile>(a, share, next, s.weight_tile(a, i + 1));
      CommitCopies();
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    MultiplyTiles<T, Tile>(a, s, s.weight_tile(a, i), share.size);
    if (clustered) {
      SyncCluster();
    } else {
      __syncthreads();
    }
    FinishTile<Tile>(a, s, first_row, count, tile);
    tile = next;
  }
  if (clustered) SyncCluster();  // no block ends while another reads its sums
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_LINEAR_TILES_KERNEL_CUH_
