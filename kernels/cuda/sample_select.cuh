// Top-k and top-p without sorting, by a cluster over one row of scores z <= 0 whose best is 0.
//
// The cut is found by radix selection, from coarse to fine: first by 2048 equal steps of z, since
// its float bits would put most of a vocabulary into a few bins; then, within one step, by the bits
// of z. A bin holds the weight of its scores in whole numbers (1 a score, or the probability in
// units of 2^-40), so that the sums do not depend on the order in which threads add, nor on how
// many blocks share the row, and neither does the cut. kernels/host/sample_cut.h says what is kept;
// this is the same up to the last place of the exponential.
//
// Each level, every block fills bins of its own slice, then adds up a share of the bins over all
// blocks, and the one whose share holds the crossing is read by all: two meetings of the cluster.
#ifndef RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_
#define RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_

#include "kernels/cuda/sample_row.cuh"

namespace rally {

inline constexpr int kSelectBins = 2048;

// Kept are the ids whose score has a larger key, and of those with the same key the ids up to
// `last_id`.
struct Cut {
  uint32_t key = 0;
  int32_t last_id = INT32_MAX;

  __device__ bool Keeps(uint32_t score_key, int32_t id) const {
    return score_key > key || (score_key == key && id <= last_id);
  }
};

// 64 bits in two words: shared memory adds words, but not pairs of them, in one go.
struct alignas(8) Bin {
  uint32_t low;
  uint32_t high;
};

__device__ inline void AddTo(Bin* bin, uint64_t weight) {
  const auto low = static_cast<uint32_t>(weight);
  auto high = static_cast<uint32_t>(weight >> 32);
  const uint32_t before = atomicAdd(&bin->low, low);
  if (before + low < before) ++high;
  if (high != 0) atomicAdd(&bin->high, high);
}

struct SelectScratch {
  Bin bins[kSelectBins];              // of this block's slice
  uint64_t share[kSelectBins];        // of all slices, this block's share of the bins
  uint64_t totals[kMaxSampleBlocks];  // of each block's share
  uint64_t ties[kMaxSampleBlocks];    // of each block's slice
  uint64_t warps[kSampleWarps];
  uint64_t missing;  // what the bins above the found one leave to reach
  uint64_t weight;   // of the found bin
  uint32_t bin;
  int32_t tie;
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

// Sum of `value` over the threads of the block after this one, and the total.
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
  for (int w = 0; w < kSampleWarps; ++w) {
    *total += s.warps[w];
    if (w > warp) later += s.warps[w];
  }
  __syncthreads();
  return sum - value + later;
}

// Puts this block's value into every block's list; it is there when the cluster has met.
__device__ inline void Publish(uint64_t value, const RowSlice& slice, uint64_t* list) {
  if (threadIdx.x < slice.blocks) {
    *InBlockOfCluster(&list[slice.rank], static_cast<uint32_t>(threadIdx.x)) = value;
  }
}

// Adds this block's share of the bins over all blocks, and makes its total known.
__device__ inline void MergeBins(const RowSlice& slice, SelectScratch& s) {
  const int share = kSelectBins / static_cast<int>(slice.blocks);
  const int first = static_cast<int>(slice.rank) * share;
  MeetInCluster();  // the bins are full
  uint64_t mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < share; i += kSampleThreads) {
    uint64_t sum = 0;
    for (uint32_t b = 0; b < slice.blocks; ++b) {
      const Bin bin = *InBlockOfCluster(&s.bins[first + i], b);
      sum += uint64_t{bin.high} << 32 | bin.low;
    }
    s.share[i] = sum;
    mine += sum;
  }
  Publish(BlockSum(mine, s.warps), slice, s.totals);
  MeetInCluster();
}

// Finds the bin in which the weights from the best on reach `target` (at most the sum of all bins);
// a target of 0 stands for `of_all` of that sum, at least 1. Every block does the same work.
__device__ inline void FindBin(const RowSlice& slice, SelectScratch& s, uint64_t target,
                               float of_all) {
  MergeBins(slice, s);
  uint64_t total = 0;
  for (uint32_t b = 0; b < slice.blocks; ++b) total += s.totals[b];
  if (target == 0) {
    target =
        max(uint64_t{1},
            static_cast<uint64_t>(ceil(static_cast<double>(of_all) * static_cast<double>(total))));
  }
  target = min(target, total);
  uint32_t owner = slice.blocks - 1;  // of the crossing; later blocks have the better bins
  uint64_t above = 0;
  while (owner > 0 && above + s.totals[owner] < target) above += s.totals[owner--];

  const int share = kSelectBins / static_cast<int>(slice.blocks);
  const int each = (share + kSampleThreads - 1) / kSampleThreads;
  const int begin = static_cast<int>(threadIdx.x) * each;
  const uint64_t* owned = InBlockOfCluster(&s.share[0], owner);
  uint64_t weights[kSelectBins / kSampleThreads] = {};
  uint64_t mine = 0;
#pragma unroll
  for (int j = 0; j < kSelectBins / kSampleThreads; ++j) {
    if (j < each && begin + j < share) weights[j] = owned[begin + j];
    mine += weights[j];
  }
  uint64_t owners;
  above += SumAfter(mine, s, &owners);
#pragma unroll
  for (int j = kSelectBins / kSampleThreads - 1; j >= 0; --j) {
    if (above < target && target <= above + weights[j]) {
      s.bin = owner * static_cast<uint32_t>(share) + static_cast<uint32_t>(begin + j);
      s.missing = target - above;
      s.weight = weights[j];
    }
    above += weights[j];
  }
  __syncthreads();
}

// After FindBin no other block reads them any more.
__device__ inline void ClearBins(SelectScratch& s) {
  for (int i = static_cast<int>(threadIdx.x); i < kSelectBins; i += kSampleThreads) {
    s.bins[i] = {0, 0};
  }
  __syncthreads();
}

// Where the weights of the scores from the best on reach a target.
struct Crossing {
  uint32_t key = 0;      // the score at which they do
  uint64_t missing = 0;  // what the scores above leave to reach
  uint64_t weight = 0;   // of all scores with this key
};

// The target is `target`, or if that is 0 `of_all` of the weight of the scores whose key is at
// least `least`. Every thread of the cluster calls it and gets the result.
template <int kPer, typename Weight>
__device__ Crossing FindCrossing(const float* z, const RowSlice& slice, uint32_t least,
                                 uint64_t target, float of_all, SelectScratch& s) {
  const Weight weight;
  ClearBins(s);
  ForEachScore<kPer, 2>(z, slice.count, [&](float score, int32_t) {
    if (ScoreKey(score) >= least) AddTo(&s.bins[StepOf(score)], weight(score));
  });
  FindBin(slice, s, target, of_all);
  const uint32_t step = s.bin;
  Crossing crossing{.missing = s.missing};
  for (int level = 1; level <= 3; ++level) {
    const int shift = ShiftOfLevel(level);
    const int above = level == 1 ? 32 : ShiftOfLevel(level - 1);
    const uint32_t mask = (1u << (above - shift)) - 1;
    ClearBins(s);
    ForEachScore<kPer, 2>(z, slice.count, [&](float score, int32_t) {
      const uint32_t key = ScoreKey(score);
      if (StepOf(score) != step || key < least) return;
      if (level > 1 && ((key ^ crossing.key) >> above) != 0) return;
      AddTo(&s.bins[key >> shift & mask], weight(score));
    });
    FindBin(slice, s, crossing.missing, 0);
    crossing.key |= s.bin << shift;
    crossing.missing = s.missing;
    crossing.weight = s.weight;
  }
  return crossing;
}

// The id of the `wanted`-th score (from 1) with this key, in the order of ids. Each thread counts
// in a stretch of its own.
__device__ inline int32_t FindTie(const float* z, const RowSlice& slice, uint32_t key,
                                  uint64_t wanted, SelectScratch& s) {
  const int32_t stretch = (slice.count + kSampleThreads - 1) / kSampleThreads;
  const int32_t begin = min(slice.count, static_cast<int32_t>(threadIdx.x) * stretch);
  const int32_t end = min(slice.count, begin + stretch);
  uint64_t mine = 0;
  for (int32_t i = begin; i < end; ++i) mine += ScoreKey(z[i]) == key ? 1 : 0;
  uint64_t total;
  const uint64_t after = SumAfter(mine, s, &total);
  Publish(total, slice, s.ties);
  MeetInCluster();
  uint64_t seen = total - after - mine;
  for (uint32_t b = 0; b < slice.rank; ++b) seen += s.ties[b];
  for (int32_t i = begin; i < end && seen < wanted; ++i) {
    if (ScoreKey(z[i]) != key || ++seen != wanted) continue;
    for (uint32_t b = 0; b < slice.blocks; ++b) *InBlockOfCluster(&s.tie, b) = slice.begin + i;
  }
  MeetInCluster();
  return s.tie;
}

// In the order of Hugging Face and vLLM: top_k and all that equal the last of them, then of these
// the fewest best ones whose probabilities reach top_p. `vocab`: scores of the whole row.
template <int kPer>
__device__ Cut FindCut(const float* z, const RowSlice& slice, int32_t vocab, int32_t top_k,
                       float top_p, SelectScratch& s) {
  Cut cut;
  if (top_k > 0 && top_k < vocab) {
    const auto count = static_cast<uint64_t>(top_k);
    cut.key = FindCrossing<kPer, CountOne>(z, slice, 0, count, 0, s).key;
  }
  if (top_p >= 1) return cut;
  const Crossing crossing = FindCrossing<kPer, ProbabilityOf>(z, slice, cut.key, 0, top_p, s);
  cut.key = crossing.key;
  const uint64_t each = ProbabilityOf()(ScoreOf(crossing.key));
  const uint64_t needed = (crossing.missing + each - 1) / each;
  if (needed * each < crossing.weight) cut.last_id = FindTie(z, slice, crossing.key, needed, s);
  return cut;
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_SAMPLE_SELECT_CUH_
