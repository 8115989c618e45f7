// What the parts of the fused product of some dozen rows share: arguments, sizes, shared memory.
//
// A block computes a tile of out, kRows x kColumns, over its share of the depth, and holds all of
// that share of x and W in shared memory: W is asked for before the block waits for the kernel
// before it, so only x is left to fetch when that one ends. Where a product has more tiles than the
// GPU has multiprocessors (the head), a block keeps x and walks over tiles, the next W on its way.
#ifndef RALLY_KERNELS_CUDA_LINEAR_TILES_CUH_
#define RALLY_KERNELS_CUDA_LINEAR_TILES_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

inline constexpr int kLinearWarps = 8;
inline constexpr int kLinearThreads = kLinearWarps * kWarp;
inline constexpr int kLinearDepthStep = 32;  // of a warp: two tensor-core products deep
inline constexpr int kMaxNormedWidth = 1024;
inline constexpr int kMaxLinearShares = 8;  // blocks of a cluster that share the depth

struct LinearTileArgs {
  RowCount rows;
  const StepSample* samples = nullptr;
  Matrix x;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  float norm_epsilon = 0;
  const void* weight = nullptr;  // (n, k), row r at element r * weight_stride
  int32_t k = 0;
  int32_t weight_stride = 0;
  const float* bias = nullptr;
  int32_t columns = 0;  // of out; gated: W has twice as many rows
  int32_t activated = 0;
  ActivationKind activation = ActivationKind::kSilu;
  int32_t gated = 0;
  int32_t accumulate = 0;
  Matrix out;
  int32_t column_tiles = 0;
  int32_t depth = 0;         // of a share, a multiple of kLinearDepthStep; the last may be shorter
  int32_t weight_tiles = 1;  // W tiles in shared memory: 2 where a block walks
};

// Rows of two-byte elements in shared memory start 16 bytes further in the banks, so that the 8
// rows of a tensor-core tile are read without conflicts.
__host__ __device__ constexpr int32_t LinearPitch(int32_t depth) {
  return (depth * 2 + 127) / 128 * 128 + 16;
}

template <int kTileRows, int kTileColumns>
struct LinearTile {
  static constexpr int kRows = kTileRows;        // 16, 32 or 64
  static constexpr int kColumns = kTileColumns;  // a multiple of 8: rows of W
  static constexpr int kWarpRows = kRows == 64 ? 32 : kRows;
  static constexpr int kRowWarps = kRows / kWarpRows;
  static constexpr int kDepthWarps = kLinearWarps / kRowWarps;
  // Floats from row to row of the partial sums: 8 more than a multiple of 32 for the banks.
  static constexpr int kPartialPitch = (kColumns + 23) / 32 * 32 + 8;
  static constexpr int kPartialBytes = kDepthWarps * kRows * kPartialPitch * 4;

  __host__ __device__ static constexpr int32_t XBytes(int32_t depth) {
    return kRows * LinearPitch(depth);
  }
  __host__ __device__ static constexpr int32_t WeightBytes(int32_t depth) {
    return kColumns * LinearPitch(depth);
  }
  // The partial sums take the place of x and W where these are not needed again.
  static size_t SharedBytes(int32_t depth, int32_t weight_tiles) {
    const int32_t operands = XBytes(depth) + weight_tiles * WeightBytes(depth);
    return static_cast<size_t>(weight_tiles == 1 ? std::max(operands, kPartialBytes)
                                                 : operands + kPartialBytes);
  }
};

// The block's shared memory.
template <typename Tile>
struct LinearShared {
  __device__ LinearShared(const LinearTileArgs& a, unsigned char* base)
      : x(base),
        weights(base + Tile::XBytes(a.depth)),
        partial(reinterpret_cast<float*>(
            a.weight_tiles == 1 ? base : weights + a.weight_tiles * Tile::WeightBytes(a.depth))) {}
  __device__ unsigned char* weight_tile(const LinearTileArgs& a, int32_t i) const {
    return weights + i % a.weight_tiles * Tile::WeightBytes(a.depth);
  }

  unsigned char* x;
  unsigned char* weights;
  float* partial;  // (kDepthWarps, kRows, kPartialPitch)
};

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_LINEAR_TILES_CUH_
