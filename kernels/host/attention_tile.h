// One work item of attention.cc: a tile of queries against all keys that they may see.
#ifndef RALLY_KERNELS_HOST_ATTENTION_TILE_H_
#define RALLY_KERNELS_HOST_ATTENTION_TILE_H_

#include <cstdint>

#include "kernels/ops.h"

namespace rally {

inline constexpr int32_t kMaxQueries = 64;
inline constexpr int32_t kMaxHeadDim = 256;

// Query (token i, head h) has the number i * heads + h. At most kMaxQueries.
struct AttentionItem {
  const int32_t* block_table;
  int32_t kv_head;
  int32_t first_head;  // query head
  int32_t heads;
  int32_t first_token;  // flat
  int32_t tokens;
  int32_t first_position;
};

void AttendManyQueries(const AttentionArgs& a, const AttentionItem& item);
void AttendFewQueries(const AttentionArgs& a, const AttentionItem& item);

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_ATTENTION_TILE_H_
