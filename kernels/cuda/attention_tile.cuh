// How the queries of a step's chunks are cut into tiles, for the kernels that take chunks.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define RALLY_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include "kernels/cuda/attention_math.cuh"

namespace rally {

// A tile holds some queries that share a KV head: tokens of one row, times query heads of the
// group. Query q is token q / heads, head q % heads.
struct ChunkTiling {
  int32_t group;       // query heads of a KV head
  int32_t heads;       // of them in a tile
  int32_t head_tiles;  // tiles that a group takes
  int32_t tokens;      // in a tile
};

// Tiles of at most `queries`.
inline ChunkTiling PlanTiling(const AttentionArgs& a, int32_t queries) {
  const int32_t group = a.q_heads / a.kv.kv_heads;
  const int32_t heads = std::min(group, queries);
  return {group, heads, static_cast<int32_t>(CeilDiv(group, heads)), queries / heads};
}

// No step of this shape has more token tiles: each row wastes less than one.
inline unsigned MaxTokenTiles(const AttentionArgs& a, const ChunkTiling& tiling) {
  return static_cast<unsigned>(a.shape.max_tokens / tiling.tokens + a.shape.max_rows);
}

struct ChunkTile {
  StepRow row;
  int32_t kv_head = 0;
  int32_t first_head = 0;
  int32_t heads = 0;
  int32_t first_token = 0;  // flat
  int32_t tokens = 0;
  int32_t first_position = 0;

  __device__ int32_t last_position() const { return first_position + tokens - 1; }
  __device__ int32_t queries() const { return tokens * heads; }
};

// Token tiles of row r: rows of one token belong to the decode kernel.
__device__ inline int32_t TokenTiles(const AttentionArgs& a, const ChunkTiling& tiling, int32_t r) {
  if (r >= a.record.header->row_count) return 0;
  const int32_t count = a.record.rows[r].token_count;
  return count > 1 ? (count + tiling.tokens - 1) / tiling.tokens : 0;
}

// The tile of a block; false where there is none. `head_tile` counts those of all KV heads. Every
// warp searches for itself, 32 rows at a time. Token tiles go from the last to the first: within a
// prompt the last is the longest.
__device__ inline bool FindTile(const AttentionArgs& a, const ChunkTiling& tiling,
                                uint32_t token_tile, uint32_t head_tile, ChunkTile* tile) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t rows = a.record.header->row_count;
  int32_t total = 0;
  for (int32_t r = lane; r < rows; r += kWarp) total += TokenTiles(a, tiling, r);
  int32_t wanted = WarpSum(total) - 1 - static_cast<int32_t>(token_tile);
  if (wanted < 0) return false;
  for (int32_t base = 0;; base += kWarp) {
    const int32_t mine = TokenTiles(a, tiling, base + lane);
    int32_t end = mine;  // of this lane's tiles, among the warp's
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int32_t before = __shfl_up_sync(kFullWarp, end, offset);
      if (lane >= offset) end += before;
    }
    const unsigned holders = __ballot_sync(kFullWarp, wanted < end);
    if (holders == 0) {
      wanted -= __shfl_sync(kFullWarp, end, kWarp - 1);
      continue;
    }
    const int holder = __ffs(static_cast<int>(holders)) - 1;
    const int32_t skipped = (wanted - __shfl_sync(kFullWarp, end - mine, holder)) * tiling.tokens;
    const auto y = static_cast<int32_t>(head_tile);
    const int32_t in_group = y % tiling.head_tiles * tiling.heads;
    tile->row = a.record.rows[base + holder];
    tile->kv_head = y / tiling.head_tiles;
    tile->first_head = tile->kv_head * tiling.group + in_group;
    tile->heads = min(tiling.heads, tiling.group - in_group);
    tile->first_token = tile->row.token_begin + skipped;
    tile->tokens = min(tiling.tokens, tile->row.token_count - skipped);
    tile->first_position = tile->row.first_position + skipped;
    return true;
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_TILE_CUH_
