// Causal attention over the paged cache, with the running softmax of FlashAttention (Dao et al.,
// 2022): keys come in tiles of 64, and what was summed so far is scaled down whenever the maximum
// rises.
//
// A work item is a tile of at most 64 queries that share a KV head: some tokens of one row, times
// the query heads of the group. Several queries: they are the vector lanes and keys are broadcast,
// so that no sum crosses lanes. A few (decode): the lanes run along the head.
//
// Only positions that some query of the item may see are loaded, so that what recycled blocks hold
// beyond them never enters a product, not even times zero.
#include <algorithm>
#include <cstring>

#include "kernels/host/attention_tile.h"
#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"

namespace rally {
namespace {

constexpr int32_t kFewQueries = 8;

struct Tiling {
  int32_t group;        // query heads of a KV head
  int32_t heads;        // of them in one tile
  int32_t head_chunks;  // tiles that a group takes
  int32_t tokens;       // in one tile
};

Tiling PlanTiling(const AttentionArgs& a) {
  const int32_t group = a.q_heads / a.kv.kv_heads;
  const int32_t heads = std::min(group, kMaxQueries);
  return {group, heads, (group + heads - 1) / heads, std::max(1, kMaxQueries / heads)};
}

int64_t TokenTiles(const StepRow& row, const Tiling& tiling) {
  return (row.token_count + tiling.tokens - 1) / tiling.tokens;
}

AttentionItem MakeItem(const AttentionArgs& a, const Tiling& tiling, int64_t index) {
  const int64_t per_token_tile = int64_t{a.kv.kv_heads} * tiling.head_chunks;
  int64_t token_tile = index / per_token_tile;
  const StepRow* row = a.record.rows;
  while (token_tile >= TokenTiles(*row, tiling)) token_tile -= TokenTiles(*row++, tiling);

  const auto within = static_cast<int32_t>(index % per_token_tile);
  const int32_t kv_head = within / tiling.head_chunks;
  const int32_t first_in_group = within % tiling.head_chunks * tiling.heads;
  const auto skipped = static_cast<int32_t>(token_tile * tiling.tokens);
  return {.block_table = a.tables.block_tables + int64_t{row->slot} * a.tables.max_blocks_per_slot,
          .kv_head = kv_head,
          .first_head = kv_head * tiling.group + first_in_group,
          .heads = std::min(tiling.heads, tiling.group - first_in_group),
          .first_token = row->token_begin + skipped,
          .tokens = std::min(tiling.tokens, row->token_count - skipped),
          .first_position = row->first_position + skipped};
}

}  // namespace

void RunAttention(const AttentionArgs& a) {
  const Tiling tiling = PlanTiling(a);
  int64_t token_tiles = 0;
  int64_t work = 0;  // products
  for (int32_t r = 0; r < a.record.header->row_count; ++r) {
    const StepRow& row = a.record.rows[r];
    token_tiles += TokenTiles(row, tiling);
    work += int64_t{row.token_count} * (row.first_position + row.token_count) * a.out.cols;
  }
  const int64_t items = token_tiles * a.kv.kv_heads * tiling.head_chunks;
  // From the last tile on: within a prompt it is the longest.
  ParallelForDynamic(items, work, [&](int64_t i) {
    const AttentionItem item = MakeItem(a, tiling, items - 1 - i);
    if (item.tokens * item.heads < kFewQueries) {
      AttendFewQueries(a, item);
    } else {
      AttendManyQueries(a, item);
    }
  });
}

}  // namespace rally
