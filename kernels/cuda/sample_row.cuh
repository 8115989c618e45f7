// One row of scores spread over the blocks of a cluster: who has what, how each block goes through
// its slice, and how the best is agreed on.
//
// Block b of C has ids [b * slice, (b + 1) * slice) of the row, so ids grow with the block. What
// the blocks exchange they write into each other's shared memory, then they meet: one meeting an
// exchange.
#ifndef RALLY_KERNELS_CUDA_SAMPLE_ROW_CUH_
#define RALLY_KERNELS_CUDA_SAMPLE_ROW_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / kWarp;
inline constexpr int kMaxSampleBlocks = 8;  // what every GPU lets a cluster have

// The part of a row that is this block's.
struct RowSlice {
  int32_t begin = 0;    // id of its first score
  int32_t count = 0;    // may be 0
  uint32_t rank = 0;    // of this block in the cluster
  uint32_t blocks = 1;  // in the cluster
};

// Orders as the floats do (no NaN).
__device__ inline uint32_t ScoreKey(float z) {
  const uint32_t bits = __float_as_uint(z);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float ScoreOf(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

// The larger key wins, and of equal ones the smaller id.
struct alignas(8) Best {
  uint32_t key = 0;
  int32_t id = INT32_MAX;
};

// Above the keys of all numbers.
inline constexpr uint32_t kNotFiniteKey = UINT32_MAX;

// For warps whose lanes may have gone different ways, which the barrier itself does not allow.
__device__ inline void MeetInCluster() {
  __syncwarp();
  SyncCluster();
}

__device__ inline Best WarpBest(const Best& mine) {
  const uint32_t key = __reduce_max_sync(kFullWarp, mine.key);
  return {key, __reduce_min_sync(kFullWarp, mine.key == key ? mine.id : INT32_MAX)};
}

// An entry a warp of the cluster. Two sets take turns: when one is written, all have met since they
// read it.
struct BestScratch {
  Best warps[2][kMaxSampleBlocks * kSampleWarps];
};

// The best of the cluster, in every thread. `turn`: 0, 1, 0, ... from call to call. Whatever was
// written to shared memory before is visible after, in the whole cluster.
__device__ inline Best ClusterBest(const Best& mine, const RowSlice& slice, int turn,
                                   BestScratch& s) {
  const auto lane = static_cast<uint32_t>(threadIdx.x) % kWarp;
  const Best of_warp = WarpBest(mine);
  if (lane < slice.blocks) {
    Best* to = &s.warps[turn][slice.rank * kSampleWarps + threadIdx.x / kWarp];
    *InBlockOfCluster(to, lane) = of_warp;
  }
  MeetInCluster();
  Best best;
  for (uint32_t i = lane; i < slice.blocks * kSampleWarps; i += kWarp) {
    const Best other = s.warps[turn][i];
    if (other.key > best.key || (other.key == best.key && other.id < best.id)) best = other;
  }
  return WarpBest(best);
}

// Calls fn(values, index of the first) for the scores x of a slice, in packs of kPer as long as
// they are whole and then one by one; a thread's indices grow. kInFlight loads are under way at
// once.
template <int kPer, int kInFlight, typename Fn>
__device__ inline void ForEachPack(const float* x, int32_t count, const Fn& fn) {
  const int32_t packs = count / kPer;
  for (auto first = static_cast<int32_t>(threadIdx.x); first < packs;
       first += kSampleThreads * kInFlight) {
    float values[kInFlight][kPer];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int32_t i = first + u * kSampleThreads;
      if (i < packs) LoadPack(x + int64_t{i} * kPer, values[u]);
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int32_t i = first + u * kSampleThreads;
      if (i < packs) fn(values[u], i * kPer);
    }
  }
  const int32_t rest = packs * kPer + static_cast<int32_t>(threadIdx.x);
  if (rest < count) {
    const float value[1] = {x[rest]};
    fn(value, rest);
  }
}

// Calls fn(score, index).
template <int kPer, int kInFlight, typename Fn>
__device__ inline void ForEachScore(const float* x, int32_t count, const Fn& fn) {
  ForEachPack<kPer, kInFlight>(x, count, [&](const auto& values, int32_t first) {
    constexpr int kCount = sizeof(values) / sizeof(float);
#pragma unroll
    for (int j = 0; j < kCount; ++j) fn(values[j], first + j);
  });
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_SAMPLE_ROW_CUH_
