// Top-k and top-p without sorting, by one block over one row of scores z <= 0 whose best is 0.
//
// The cut is found by radix selection, from coarse to fine: first by 2048 equal steps of z, since
// its float bits would put most of a vocabulary into a few bins; then, within one step, by the bits
// of z. A bin holds the weight of its scores in whole numbers (1 a score, or the probability in
// units of 2^-40), so that the sums do not depend on the order in which threads add, and neither
// does the cut. kernels/host/sample_cut.h says what is kept; this is the same up to the last place
// of the exponential.
#ifndef RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_
#define RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

inline constexpr int kSampleThreads = 1024;
inline constexpr int kSelectBins = 2048;

// Orders as the floats do (no NaN).
__device__ inline uint32_t ScoreKey(float z) {
  const uint32_t bits = __float_as_uint(z);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Kept are the ids whose score has a larger key, and of those with the same key the ids up to
// `last_id`.
struct Cut {
  uint32_t key = 0;
  int32_t last_id = INT32_MAX;

  __device__ bool Keeps(uint32_t score_key, int32_t id) const {
    return score_key > key || (score_key == key && id <= last_id);
  }
};

struct SelectScratch {
  uint64_t bins[kSelectBins];
  uint64_t warps[kWarp];
  uint64_t missing;  // what the bins above the found one leave to reach
  uint64_t weight;   // of the found bin
  uint32_t bin;
};

// A score's weight.
struct CountOne {
  __device__ uint64_t operator()(float) const { return 1; }
};
struct ProbabilityOf {
  __device__ uint64_t operator()(float z) const {
    return static_cast<uint64_t>(__float2ull_rn(expf(z) * 0x1p40f));
  }
};

// Steps of 1/64 down to -32; what is below shares the last one. Larger bins hold larger scores.
__device__ inline uint32_t StepOf(float z) {
  return kSelectBins - 1 - static_cast<uint32_t>(fminf(-z * 64.0f, kSelectBins - 1.0f));
}

// Levels after the first: digits of 11, 11 and 10 bits of the key.
__device__ inline int ShiftOfLevel(int level) { return level == 1 ? 21 : level == 2 ? 10 : 0; }

// Sum of `value` over the threads after this one, and the total.
__device__ inline uint64_t SumAfter(uint64_t value, SelectScratch& s, uint64_t* total) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  uint64_t sum = value;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const uint64_t after = __shfl_down_sync(kFullWarp, sum, offset);
    if (lane + offset < kWarp) sum += after;
  }
  if (lane == 0) s.warps[warp] = sum;
  __syncthreads();
  uint64_t later = 0;
  *total = 0;
  for (int w = 0; w < kSampleThreads / kWarp; ++w) {
    *total += s.warps[w];
    if (w > warp) later += s.warps[w];
  }
  __syncthreads();
  return sum - value + later;
}

// Finds the bin in which the weights from the best on reach `target` (at most the sum of all bins);
// a target of 0 stands for `share` of that sum, at least 1.
__device__ inline void FindBin(SelectScratch& s, uint64_t target, float share) {
  static_assert(kSelectBins == 2 * kSampleThreads);
  const uint64_t low = s.bins[2 * threadIdx.x];
  const uint64_t high = s.bins[2 * threadIdx.x + 1];
  uint64_t total;
  const uint64_t above_high = SumAfter(low + high, s, &total);
  if (target == 0) {
    target =
        max(uint64_t{1},
            static_cast<uint64_t>(ceil(static_cast<double>(share) * static_cast<double>(total))));
  }
  target = min(target, total);
  const uint64_t above_low = above_high + high;
  if (above_high < target && target <= above_low) {
    s.bin = 2 * threadIdx.x + 1;
    s.missing = target - above_high;
    s.weight = high;
  } else if (above_low < target && target <= above_low + low) {
    s.bin = 2 * threadIdx.x;
    s.missing = target - above_low;
    s.weight = low;
  }
  __syncthreads();
}

__device__ inline void ClearBins(SelectScratch& s) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSelectBins; i += kSampleThreads) s.bins[i] = 0;
  __syncthreads();
}

// Where the weights of the scores from the best on reach a target.
struct Crossing {
  uint32_t key = 0;      // the score at which they do
  uint64_t missing = 0;  // what the scores above leave to reach
  uint64_t weight = 0;   // of all scores with this key
};

// The target is `target`, or if that is 0 `share` of the weight of the scores whose key is at least
// `least`. Every thread of the block calls it and gets the result.
template <typename Weight>
__device__ Crossing FindCrossing(const float* z, int32_t n, uint32_t least, uint64_t target,
                                 float share, SelectScratch& s) {
  const Weight weight;
  ClearBins(s);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kSampleThreads) {
    if (ScoreKey(z[i]) < least) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(&s.bins[StepOf(z[i])]), weight(z[i]));
  }
  __syncthreads();
  FindBin(s, target, share);
  const uint32_t step = s.bin;
  Crossing crossing{.missing = s.missing};
  for (int level = 1; level <= 3; ++level) {
    const int shift = ShiftOfLevel(level);
    const int above = level == 1 ? 32 : ShiftOfLevel(level - 1);
    const uint32_t mask = (1u << (above - shift)) - 1;
    ClearBins(s);
    for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kSampleThreads) {
      const uint32_t key = ScoreKey(z[i]);
      if (StepOf(z[i]) != step || key < least) continue;
      if (level > 1 && ((key ^ crossing.key) >> above) != 0) continue;
      atomicAdd(reinterpret_cast<unsigned long long*>(&s.bins[key >> shift & mask]), weight(z[i]));
    }
    __syncthreads();
    FindBin(s, crossing.missing, 0);
    crossing.key |= s.bin << shift;
    crossing.missing = s.missing;
    crossing.weight = s.weight;
  }
  return crossing;
}

// The id of the `wanted`-th score (from 1) with this key, in the order of ids. Each thread counts
// in a stretch of its own.
__device__ inline int32_t FindTie(const float* z, int32_t n, uint32_t key, uint64_t wanted,
                                  SelectScratch& s) {
  const int32_t stretch = (n + kSampleThreads - 1) / kSampleThreads;
  const int32_t begin = min(n, static_cast<int32_t>(threadIdx.x) * stretch);
  const int32_t end = min(n, begin + stretch);
  uint64_t mine = 0;
  for (int32_t i = begin; i < end; ++i) mine += ScoreKey(z[i]) == key ? 1 : 0;
  uint64_t total;
  const uint64_t after = SumAfter(mine, s, &total);
  uint64_t seen = total - after - mine;
  for (int32_t i = begin; i < end && seen < wanted; ++i) {
    if (ScoreKey(z[i]) == key && ++seen == wanted) s.bin = static_cast<uint32_t>(i);
  }
  __syncthreads();
  return static_cast<int32_t>(s.bin);
}

// In the order of Hugging Face and vLLM: top_k and all that equal the last of them, then of these
// the fewest best ones whose probabilities reach top_p.
__device__ inline Cut FindCut(const float* z, int32_t n, int32_t top_k, float top_p,
                              SelectScratch& s) {
  Cut cut;
  if (top_k > 0 && top_k < n) {
    cut.key = FindCrossing<CountOne>(z, n, 0, static_cast<uint64_t>(top_k), 0, s).key;
  }
  if (top_p >= 1) return cut;
  const Crossing crossing = FindCrossing<ProbabilityOf>(z, n, cut.key, 0, top_p, s);
  cut.key = crossing.key;
  const float score =
      __uint_as_float((crossing.key >> 31) != 0 ? crossing.key & 0x7fffffffu : ~crossing.key);
  const uint64_t each = ProbabilityOf()(score);
  const uint64_t needed = (crossing.missing + each - 1) / each;
  if (needed * each < crossing.weight) cut.last_id = FindTie(z, n, crossing.key, needed, s);
  return cut;
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_
