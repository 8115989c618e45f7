// Attention on tensor cores for bf16 and fp16: tiles of positions in shared memory, and the
// fragments that mma takes of them.
//
// A tile holds rows of kHeadDim values, in chunks of 16 bytes. Chunk c of row r lies where chunk
// c ^ (r % 8) would, so that the eight rows that ldmatrix reads of one column lie in different
// banks, as do the chunks of a row that a quarter warp copies.
//
// Scores are (16 queries, 8 keys) a product, K as it lies; outputs are (16 queries, 8 values), V
// transposed as it is loaded. What is in a lane's registers of the one product is what it needs for
// the other: with g = lane / 4 and t = lane % 4, the scores of queries g and g + 8 at keys 2t and
// 2t + 1. So a softmax needs shuffles within four lanes alone.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_TILES_CUH_
#define RALLY_KERNELS_CUDA_ATTENTION_TILES_CUH_

#include "kernels/cuda/attention_math.cuh"
#include "kernels/cuda/kv_address.cuh"

namespace rally {

inline constexpr int kChunkValues = 8;  // 16 bytes

// exp(x) = exp2(x kLog2E); the instruction is an exp2.
inline constexpr float kLog2E = 1.4426950408889634f;

template <int kHeadDim, typename T>
__device__ T* ChunkOf(T* tile, int32_t row, int32_t chunk) {
  return tile + row * kHeadDim + (chunk ^ (row & 7)) * kChunkValues;
}

// Chunk 2k + chunk of a row, chunk 0 or 1. As an offset that differs from that of k = 0 by
// constants, so that a loop over k needs few registers.
template <int kHeadDim, typename T>
__device__ T* ChunkAlong(T* tile, int32_t row, int32_t chunk, int32_t k) {
  const int32_t offset = row * kHeadDim + (chunk ^ (row & 7)) * kChunkValues;
  return tile + (offset ^ (k % 4 * 2 * kChunkValues)) + k / 4 * 8 * kChunkValues;
}

// Starts to copy K and V of positions [first, first + kPositions) by kThreads threads; those from
// `end` on become zeros, and are not read. first < end.
template <int kHeadDim, int kPositions, int kThreads, typename T>
__device__ void CopyPositions(const KvHead<T>& kv, int32_t first, int32_t end, int32_t thread,
                              T* keys, T* values) {
  constexpr int kChunks = kHeadDim / kChunkValues;
  constexpr int kAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kPositions % kAtOnce == 0);
  const int32_t chunk = thread % kChunks;
  const T* from[kPositions / kAtOnce];  // all looked up before the first copy
#pragma unroll
  for (int i = 0; i < kPositions / kAtOnce; ++i) {
    const int32_t position = first + thread / kChunks + i * kAtOnce;
    from[i] = kv.At(position < end ? position : first) + chunk * kChunkValues;
  }
#pragma unroll
  for (int i = 0; i < kPositions / kAtOnce; ++i) {
    const int32_t row = thread / kChunks + i * kAtOnce;
    const bool valid = first + row < end;
    CopyAsync16(ChunkOf<kHeadDim>(keys, row, chunk), from[i], valid);
    CopyAsync16(ChunkOf<kHeadDim>(values, row, chunk), from[i] + kv.value_offset, valid);
  }
}

// Queries [row, row + 16), head values [16 k, 16 k + 16): an A operand.
template <int kHeadDim, typename T>
__device__ void LoadQueryTile(T* queries, int32_t row, int32_t k, uint32_t (&a)[4]) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  LoadTiles(ChunkAlong<kHeadDim>(queries, row + lane % 16, lane / 16, k), a);
}

// B operands of keys [row, row + 8) and [row + 8, row + 16), head values [16 k, 16 k + 16).
template <int kHeadDim, typename T>
__device__ void LoadKeyTiles(T* keys, int32_t row, int32_t k, uint32_t (&b)[2][2]) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  uint32_t tiles[4];
  LoadTiles(ChunkAlong<kHeadDim>(keys, row + lane / 16 * 8 + lane % 8, lane / 8 % 2, k), tiles);
  b[0][0] = tiles[0];
  b[0][1] = tiles[1];
  b[1][0] = tiles[2];
  b[1][1] = tiles[3];
}

// B operands of head values [16 c, 16 c + 8) and the 8 beyond, positions [row, row + 16).
template <int kHeadDim, typename T>
__device__ void LoadValueTiles(T* values, int32_t row, int32_t c, uint32_t (&b)[2][2]) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  uint32_t tiles[4];
  LoadTilesTransposed(ChunkAlong<kHeadDim>(values, row + lane % 16, lane / 16, c), tiles);
  b[0][0] = tiles[0];
  b[0][1] = tiles[1];
  b[1][0] = tiles[2];
  b[1][1] = tiles[3];
}

// Over the four lanes that hold a query.
__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(kFullWarp, x, 1);
  return x + __shfl_xor_sync(kFullWarp, x, 2);
}

// Calls fn(T, integral constant head size) and returns true where the tiles take the arguments:
// two-byte elements of one type, and rows in chunks of 16 bytes.
template <typename Fn>
bool WithTiles(const AttentionArgs& a, const Fn& fn) {
  const DType dtype = a.kv.dtype;
  if (dtype == DType::kF32 || a.qkv.dtype != dtype || a.out.dtype != dtype) return false;
  if (!HoldsPacks(a.qkv, kChunkValues) || !HoldsPacks(a.out, kChunkValues)) return false;
  const auto with_head_dim = [&](auto type) {
    if (a.kv.head_dim == 64) fn(type, std::integral_constant<int, 64>{});
    if (a.kv.head_dim == 128) fn(type, std::integral_constant<int, 128>{});
    return a.kv.head_dim == 64 || a.kv.head_dim == 128;
  };
  if (dtype == DType::kBF16) return with_head_dim(__nv_bfloat16{});
  return with_head_dim(__half{});
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_TILES_CUH_
