// What a block of the tiled decode attention works on, and its heads: norms, rotary positions and
// the append of the newest key and value.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_DECODE_ITEM_CUH_
#define RALLY_KERNELS_CUDA_ATTENTION_DECODE_ITEM_CUH_

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/rotation.cuh"

namespace rally {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kDecodeThreads = kDecodeWarps * kWarp;
inline constexpr int kDecodePositions = 16;  // of a tile
inline constexpr int kDecodeHeads = 8;       // query heads of a block, at most
// The heads in shared memory: queries, then the newest key and its value.
inline constexpr int kKeyRow = kDecodeHeads;
inline constexpr int kValueRow = kDecodeHeads + 1;
inline constexpr int kDecodeHeadRows = kDecodeHeads + 2;

struct DecodeTileArgs {
  DecodeAttentionArgs decode;
  int32_t head_blocks;  // blocks that the query heads of a KV head take
};

// What a block works on.
struct DecodeItem {
  StepRow row;
  int32_t kv_head;
  int32_t first_head;  // query heads
  int32_t heads;
  int32_t share;
  int32_t used_shares;  // those that have work
  int32_t begin;        // positions of the share, without the newest
  int32_t end;

  __device__ int32_t newest() const { return row.first_position; }
};

// False where there is nothing to do.
__device__ inline bool FindDecodeItem(const DecodeTileArgs& args, DecodeItem* item) {
  const AttentionArgs& a = args.decode.attention;
  const auto r = static_cast<int32_t>(blockIdx.x);
  if (r >= a.record.header->row_count) return false;
  item->row = a.record.rows[r];
  const int32_t group = a.q_heads / a.kv.kv_heads;
  const auto y = static_cast<int32_t>(blockIdx.y);
  const int32_t in_group = y % args.head_blocks * kDecodeHeads;
  item->kv_head = y / args.head_blocks;
  item->first_head = item->kv_head * group + in_group;
  item->heads = min(kDecodeHeads, group - in_group);

  const auto shares = static_cast<int32_t>(gridDim.z);
  const int32_t begin = FirstVisible(a.window, item->newest());
  const int32_t positions = item->newest() - begin;
  const int32_t tiles = (positions + kDecodePositions - 1) / kDecodePositions;
  const int32_t length = max(1, (tiles + shares - 1) / shares) * kDecodePositions;
  item->share = static_cast<int32_t>(blockIdx.z);
  item->used_shares = max(1, (positions + length - 1) / length);
  item->begin = begin + item->share * length;
  item->end = min(item->begin + length, item->newest());
  return item->share < item->used_shares;
}

// RMSNorm of a head, spread over a warp; rounded as a value that was stored.
template <typename T, int kPer>
__device__ void NormHead(const float* weight, float epsilon, float (&x)[kPer]) {
  if (weight == nullptr) return;
  const int32_t first = static_cast<int32_t>(threadIdx.x) % kWarp * kPer;
  float squares = 0;
#pragma unroll
  for (const float value : x) squares += value * value;
  const float factor = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(kPer * kWarp) + epsilon);
#pragma unroll
  for (int i = 0; i < kPer; ++i) x[i] = ToFloat(FromFloat<T>(x[i] * factor * weight[first + i]));
}

// Rotates a head in shared memory, by a warp.
template <typename T, int kHeadDim>
__device__ void RotateHead(const DecodeAttentionArgs& d, int32_t position, T* heads, int32_t head) {
  const int32_t pairs = d.rotary_dim / 2;
  for (auto i = static_cast<int32_t>(threadIdx.x) % kWarp; i < pairs; i += kWarp) {
    const float2 turn = RotationOf(position, d.inv_freq[i], d.rope_scale);
    const int32_t j = i + pairs;
    T* x = ChunkOf<kHeadDim>(heads, head, i / kChunkValues) + i % kChunkValues;
    T* y = ChunkOf<kHeadDim>(heads, head, j / kChunkValues) + j % kChunkValues;
    const float x0 = ToFloat(*x);
    const float y0 = ToFloat(*y);
    *x = FromFloat<T>(x0 * turn.x - y0 * turn.y);
    *y = FromFloat<T>(y0 * turn.x + x0 * turn.y);
  }
}

// The block's query heads, and in share 0 the newest key and value: a warp a head.
template <typename T, int kHeadDim>
__device__ void PrepareDecodeHeads(const DecodeAttentionArgs& d, const DecodeItem& item, T* heads) {
  constexpr int kPer = kHeadDim / kWarp;
  const AttentionArgs& a = d.attention;
  const int32_t first = static_cast<int32_t>(threadIdx.x) % kWarp * kPer;
  const T* qkv = RowOf<T>(a.qkv, item.row.token_begin) + first;
  const int32_t count = item.heads + (item.share == 0 ? 2 : 0);
  for (int32_t h = static_cast<int32_t>(threadIdx.x) / kWarp; h < count; h += kDecodeWarps) {
    const int32_t row = h < item.heads ? h : h - item.heads + kKeyRow;
    const int32_t source = h < item.heads
                               ? item.first_head + h
                               : a.q_heads + (row - kKeyRow) * a.kv.kv_heads + item.kv_head;
    float x[kPer];
    LoadPack(qkv + source * kHeadDim, x);
    if (row != kValueRow) {
      NormHead<T>(row == kKeyRow ? d.k_norm_weight : d.q_norm_weight, d.norm_epsilon, x);
    }
    StorePack(x, ChunkOf<kHeadDim>(heads, row, first / kChunkValues) + first % kChunkValues);
    __syncwarp();
    if (row != kValueRow) RotateHead<T, kHeadDim>(d, item.newest(), heads, row);
  }
}

template <typename T, int kHeadDim>
__device__ void AppendNewestHeads(const KvHead<T>& kv, int32_t position, T* heads) {
  constexpr int kChunks = kHeadDim / kChunkValues;
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i >= 2 * kChunks) return;
  using Chunk = Pack<T, kChunkValues>;
  T* to = kv.At(position) + i / kChunks * kv.value_offset + i % kChunks * kChunkValues;
  *reinterpret_cast<Chunk*>(to) =
      *reinterpret_cast<const Chunk*>(ChunkOf<kHeadDim>(heads, kKeyRow + i / kChunks, i % kChunks));
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_DECODE_ITEM_CUH_
