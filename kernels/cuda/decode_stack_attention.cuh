// Attention of the stack: the block takes shares of (row, KV head), norms and rotates the heads'
// queries and the new key, appends the new key and value, and attends to the share's positions.
//
// The newest position is read from shared memory, never from the cache: the block that has the last
// share writes it there. Every other position was written by an earlier step.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_ATTENTION_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_ATTENTION_CUH_

#include "kernels/cuda/attention_running.cuh"
#include "kernels/cuda/decode_stack_input.cuh"
#include "kernels/cuda/rotation.cuh"

namespace rally {

inline constexpr int32_t kPositionsOfShare = 128;  // at least, so that a share is worth a merge

struct StackItem {
  int32_t row;
  int32_t kv_head;
  int32_t share;
};

// Shares of each row in this step: as many as the blocks can take at once, and none for nothing.
__device__ inline int32_t SharesOfStep(const StackShared& s, int32_t rows, int32_t kv_heads) {
  int32_t longest = 1;
  for (int32_t r = 0; r < rows; ++r) longest = max(longest, s.rows[r].first_position + 1);
  const int32_t wanted = (longest + kPositionsOfShare - 1) / kPositionsOfShare;
  const int32_t free = static_cast<int32_t>(gridDim.x) / max(1, rows * kv_heads);
  return max(1, min(min(wanted, free), kStackMaxShares));
}

// The heads of an item in shared memory as fp32: query heads, then the new key, then the new value.
// What waits for the end of the item lies behind.
template <int kLanes, int kHeads>
struct AttentionShared {
  __device__ AttentionShared(unsigned char* base, int32_t head_dim)
      : heads(reinterpret_cast<float*>(base)),
        merged(reinterpret_cast<Running*>(base + (kHeads + 2) * head_dim * sizeof(float))) {}
  float* heads;     // (kHeads + 2, head_dim)
  Running* merged;  // (kStackWarps, kHeads, kLanes)
};

// Bytes of it.
inline int32_t AttentionSharedBytes(int32_t lanes, int32_t heads, int32_t head_dim) {
  return (heads + 2) * head_dim * static_cast<int32_t>(sizeof(float)) +
         kStackWarps * heads * lanes * static_cast<int32_t>(sizeof(Running));
}

// Rounds as a value that was stored in the compute type.
template <typename T>
__device__ float Rounded(float x) {
  return ToFloat(FromFloat<T>(x));
}

// `heads` query heads from `first_head` on, then K and V of the KV head, 16 bytes a thread.
template <typename T>
__device__ void LoadHeads(const StackKernelArgs& a, const StackItem& item, int32_t first_head,
                          int32_t heads, float* out) {
  const int32_t packs = a.head_dim / 8;
  const T* qkv = RowOf<T>(a.qkv, item.row);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < (heads + 2) * packs; i += kStackThreads) {
    const int32_t head = i / packs;
    const int32_t d = (i - head * packs) * 8;
    const int32_t source = head < heads ? first_head + head
                                        : a.q_heads + (head - heads) * a.kv.kv_heads + item.kv_head;
    float x[8];
    LoadFresh(qkv + source * a.head_dim + d, x);
#pragma unroll
    for (int j = 0; j < 8; ++j) out[head * a.head_dim + d + j] = x[j];
  }
}

// RMSNorm of the query heads and the key: a warp a head.
template <typename T>
__device__ void NormHeads(const StackKernelArgs& a, const StackAttention& attention, int32_t heads,
                          float* values) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  for (auto head = static_cast<int32_t>(threadIdx.x) / kWarp; head <= heads; head += kStackWarps) {
    const float* weight = head < heads ? attention.q_norm_weight : attention.k_norm_weight;
    if (weight == nullptr) continue;
    float* x = values + head * a.head_dim;
    float squares = 0;
    for (int32_t d = lane; d < a.head_dim; d += kWarp) squares += x[d] * x[d];
    const float factor =
        1.0f / sqrtf(WarpSum(squares) / static_cast<float>(a.head_dim) + a.norm_epsilon);
    for (int32_t d = lane; d < a.head_dim; d += kWarp) {
      x[d] = Rounded<T>(x[d] * factor * weight[d]);
    }
  }
}

template <typename T>
__device__ void RotateHeads(const StackKernelArgs& a, const StackShared& s, const StackItem& item,
                            int32_t heads, float* values) {
  const int32_t pairs = a.rotary_dim / 2;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < (heads + 1) * pairs; i += kStackThreads) {
    const int32_t head = i / pairs;
    const int32_t pair = i - head * pairs;
    const float2 turn = s.rotation[item.row * kMaxRotaryPairs + pair];
    float* x = values + head * a.head_dim + pair;
    const float x0 = x[0];
    const float y0 = x[pairs];
    x[0] = Rounded<T>(x0 * turn.x - y0 * turn.y);
    x[pairs] = Rounded<T>(y0 * turn.x + x0 * turn.y);
  }
}

// Once a step, for all layers.
__device__ inline void FillRotations(const StackKernelArgs& a, const StackShared& s, int32_t rows) {
  const int32_t pairs = a.rotary_dim / 2;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows * pairs; i += kStackThreads) {
    const int32_t row = i / pairs;
    const int32_t pair = i - row * pairs;
    s.rotation[row * kMaxRotaryPairs + pair] =
        RotationOf(s.rows[row].first_position, a.inv_freq[pair], a.rope_scale);
  }
}

template <typename T>
__device__ void AppendNewest(const KvHead<T>& kv, const float* key, int32_t position) {
  const int32_t packs = kv.head_dim / 8;
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i >= 2 * packs) return;
  const bool value = i >= packs;
  const int32_t d = (value ? i - packs : i) * 8;
  float x[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = key[(value ? kv.head_dim : 0) + d + j];
  StorePack(x, kv.At(position) + (value ? kv.value_offset : 0) + d);
}

// The newest position belongs to the first lane group of the first warp.
template <int kLanes, int kHeads>
__device__ void FoldNewest(const float (&query)[kHeads][kPerLane], const float* key,
                           int32_t head_dim, int32_t d, Running (&running)[kHeads]) {
  const bool mine = static_cast<int32_t>(threadIdx.x) < kLanes && d < head_dim;
  float values[1][kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) values[0][i] = mine ? key[head_dim + d + i] : 0.0f;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float score = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) score += mine ? query[h][i] * key[d + i] : 0.0f;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      score += __shfl_xor_sync(kFullWarp, score, offset);
    }
    const bool holds = static_cast<int32_t>(threadIdx.x) < kLanes;
    const float scores[1] = {holds ? score : -INFINITY};
    Fold(scores, values, running[h]);
  }
}

// Merges the warps in their order and leaves each head's result: attended values, or a share's.
template <typename T, int kLanes, int kHeads>
__device__ void StoreItem(const StackKernelArgs& a, const StackItem& item, int32_t first_head,
                          int32_t heads, int32_t shares, Running* merged) {
  for (auto i = static_cast<int32_t>(threadIdx.x); i < heads * kLanes; i += kStackThreads) {
    const int32_t h = i / kLanes;
    const int32_t d = i % kLanes * kPerLane;
    Running total = merged[i];
    for (int w = 1; w < kStackWarps; ++w) {
      const Running& other = merged[w * kHeads * kLanes + i];
      Merge(total, other.max, other.sum, other.out);
    }
    if (d >= a.head_dim) continue;
    const int32_t head = first_head + h;
    if (shares == 1) {
#pragma unroll
      for (float& value : total.out) value /= total.sum;
      StorePack(total.out, RowOf<T>(a.attended, item.row) + head * a.head_dim + d);
      continue;
    }
    const StackPartials partials(a, shares, item.row, head);
    if (d == 0) partials.sums[item.share] = {total.max, total.sum};
    float* out = partials.outputs + item.share * a.head_dim + d;
    const float first[4] = {total.out[0], total.out[1], total.out[2], total.out[3]};
    const float second[4] = {total.out[4], total.out[5], total.out[6], total.out[7]};
    StorePack(first, out);
    StorePack(second, out + 4);
  }
}

template <typename T, int kLanes, int kHeads>
__device__ void AttendItem(const StackKernelArgs& a, const StackShared& s,
                           const StackAttention& attention, int32_t layer, const StackItem& item,
                           int32_t shares) {
  const AttentionShared<kLanes, kHeads> shared(s.input, a.head_dim);
  const int32_t heads = a.q_heads / a.kv.kv_heads;
  const int32_t first_head = item.kv_head * heads;
  const StepRow row = s.rows[item.row];
  const KvHead<T> kv(a.kv, a.tables, layer, row.slot, item.kv_head);
  const int32_t newest = row.first_position;
  const int32_t begin = FirstVisible(attention.window, newest);
  const int32_t share_length = (newest + 1 - begin + shares - 1) / shares;
  const int32_t share_begin = begin + item.share * share_length;
  const int32_t share_end = min(share_begin + share_length, newest + 1);
  const bool has_newest = share_begin <= newest && newest < share_end;

  LoadHeads<T>(a, item, first_head, heads, shared.heads);
  SyncStack();
  NormHeads<T>(a, attention, heads, shared.heads);
  SyncStack();
  RotateHeads<T>(a, s, item, heads, shared.heads);
  SyncStack();
  const float* key = shared.heads + heads * a.head_dim;
  if (has_newest) AppendNewest(kv, key, newest);

  const int32_t d = static_cast<int32_t>(threadIdx.x) % kLanes * kPerLane;
  float query[kHeads][kPerLane];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const bool valid = h < heads && d < a.head_dim;
      query[h][i] = valid ? shared.heads[h * a.head_dim + d + i] * attention.scale : 0.0f;
    }
  }
  Running running[kHeads];
  AttendShare<T, kLanes, kHeads, kStackThreads, kHeads == 1 ? 4 : 2>(
      kv, query, share_begin, min(share_end, newest), running);
  if (has_newest && threadIdx.x < kWarp) {
    FoldNewest<kLanes, kHeads>(query, key, a.head_dim, d, running);
  }
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    MergeGroups<kLanes>(running[h]);
    if (lane < kLanes) shared.merged[(warp * kHeads + h) * kLanes + lane] = running[h];
  }
  SyncStack();
  StoreItem<T, kLanes, kHeads>(a, item, first_head, heads, shares, shared.merged);
}

template <typename T, int kLanes, int kHeads>
__device__ void RunAttention(const StackKernelArgs& a, const StackShared& s, int32_t layer,
                             int32_t rows, int32_t shares) {
  const StackAttention attention = s.attentions[layer];
  const int32_t items = rows * a.kv.kv_heads * shares;
  for (auto i = static_cast<int32_t>(blockIdx.x); i < items; i += static_cast<int32_t>(gridDim.x)) {
    const StackItem item = {i / shares / a.kv.kv_heads, i / shares % a.kv.kv_heads, i % shares};
    AttendItem<T, kLanes, kHeads>(a, s, attention, layer, item, shares);
    SyncStack();
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_ATTENTION_CUH_
