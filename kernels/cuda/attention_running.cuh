// Attention of few queries over many keys on the CUDA cores: each lane group keeps an online
// softmax over its own keys, and groups are merged at the end.
//
// A lane owns kPerLane values of the head, so kLanes lanes hold a key; K and V are read in 16-byte
// loads, once for all kHeads query heads that share them, kKeys keys of a lane group in flight.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_RUNNING_CUH_
#define RALLY_KERNELS_CUDA_ATTENTION_RUNNING_CUH_

#include "kernels/cuda/attention_math.cuh"
#include "kernels/cuda/kv_address.cuh"

namespace rally {

inline constexpr int kPerLane = 8;  // values of the head

// A running softmax over some keys, for this lane's values of the head.
struct Running {
  float max = kNoMax;
  float sum = 0;
  float out[kPerLane] = {};
};

__device__ inline void Merge(Running& into, float max, float sum, const float (&out)[kPerLane]) {
  const float larger = fmaxf(into.max, max);
  const float mine = expf(into.max - larger);
  const float theirs = expf(max - larger);
  into.max = larger;
  into.sum = into.sum * mine + sum * theirs;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) into.out[i] = into.out[i] * mine + out[i] * theirs;
}

template <typename T>
__device__ void LoadHead(const T* p, bool valid, float (&out)[kPerLane]) {
  constexpr int kPer = 16 / sizeof(T);
  static_assert(kPerLane % kPer == 0);
#pragma unroll
  for (int i = 0; i < kPerLane; i += kPer) {
    float values[kPer] = {};
    if (valid) LoadPack(p + i, values);
#pragma unroll
    for (int j = 0; j < kPer; ++j) out[i + j] = values[j];
  }
}

// Folds kKeys scores and values into the softmax of one query head. Scores beyond are
// -Inf and their values zero.
template <int kKeys>
__device__ void Fold(const float (&scores)[kKeys], const float (&values)[kKeys][kPerLane],
                     Running& running) {
  float larger = running.max;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) larger = fmaxf(larger, scores[j]);
  const float shrink = expf(running.max - larger);
  running.max = larger;
  running.sum *= shrink;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) running.out[i] *= shrink;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const float p = expf(scores[j] - larger);
    running.sum += p;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) running.out[i] = fmaf(p, values[j][i], running.out[i]);
  }
}

// Positions [begin, end), dealt out to the lane groups of the block.
template <typename T, int kLanes, int kHeads, int kThreads, int kKeys>
__device__ void AttendShare(const KvHead<T>& kv, const float (&query)[kHeads][kPerLane],
                            int32_t begin, int32_t end, Running (&running)[kHeads]) {
  constexpr int kGroups = kThreads / kLanes;
  const auto group = static_cast<int32_t>(threadIdx.x) / kLanes;
  const int32_t d = static_cast<int32_t>(threadIdx.x) % kLanes * kPerLane;
  // Whole warps loop together, because the scores are summed by shuffles.
  for (int32_t tile = begin; tile < end; tile += kGroups * kKeys) {
    float keys[kKeys][kPerLane];
    float values[kKeys][kPerLane];
    bool seen[kKeys];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int32_t position = tile + j * kGroups + group;
      seen[j] = position < end;
      const T* p = kv.At(seen[j] ? position : tile) + d;
      const bool valid = seen[j] && d < kv.head_dim;
      LoadHead(p, valid, keys[j]);
      LoadHead(p + kv.value_offset, valid, values[j]);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float scores[kKeys];
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        float score = 0;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) score = fmaf(query[h][i], keys[j][i], score);
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          score += __shfl_xor_sync(kFullWarp, score, offset);
        }
        scores[j] = seen[j] ? score : -INFINITY;
      }
      Fold(scores, values, running[h]);
    }
  }
}

// Merges the lane groups of a warp: afterwards the first group holds the result.
template <int kLanes>
__device__ void MergeGroups(Running& running) {
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
    float out[kPerLane];
    const float max = __shfl_xor_sync(kFullWarp, running.max, offset);
    const float sum = __shfl_xor_sync(kFullWarp, running.sum, offset);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      out[i] = __shfl_xor_sync(kFullWarp, running.out[i], offset);
    }
    Merge(running, max, sum, out);
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_RUNNING_CUH_
