// The last kernel of a step: a cluster of up to 8 blocks a row of V logits chooses a token,
// advances the slot, fills the outcome row and raises the end stamp.
//
// Greedy rows read 4 V bytes once, in 16-byte loads of which a thread has 8 under way; the slot's
// state comes in meanwhile, and the blocks meet once. Sampled rows are read again (from L2) to be
// scaled into the shared memory of the cluster, where the passes that find the top-k and top-p cuts
// (4 each) and the draw read them; where they are too long for that, they are scaled in place. The
// draw is argmax(z_i - log(E_i)); noise is computed only where it could still win in its thread.
// Whatever order threads run in and however many blocks share a row, the result is the same, ties
// included.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sample_select.cuh"
#include "kernels/noise.h"

namespace rally {
namespace {

struct SampleScratch {
  SlotState state;
  BestScratch best;
  SelectScratch select;
};
// Behind it: the scores of the slice, if they are kept there.
constexpr size_t kScratchBytes = (sizeof(SampleScratch) + 127) / 128 * 128;
static_assert(sizeof(SlotState) % 16 == 0);

constexpr size_t kHalfSharedBytes = size_t{113} << 10;  // of an SM: two blocks fit

struct SampleLaunch {
  SampleArgs args;
  int32_t slice = 0;          // scores of a block, a multiple of 4
  int32_t scores_shared = 0;  // 1: scaled scores lie in shared memory
};

// A row as this block sees it.
struct SampleRow {
  RowSlice slice;
  float* logits;  // of the slice
  float* scores;  // where they are scaled to; maybe logits
  int32_t vocab;
};

// Starts the copy of the slot's state, of which the caller waits for the end.
__device__ void FetchState(const SlotState* slot, SampleScratch& s) {
  if (threadIdx.x < sizeof(SlotState) / 16) {
    const auto offset = static_cast<int>(threadIdx.x) * 16;
    CopyAsync16(reinterpret_cast<char*>(&s.state) + offset,
                reinterpret_cast<const char*>(slot) + offset);
  }
  CommitCopies();
}

// The largest logit of the slice with the smallest of its ids, as far as this thread sees;
// kNotFiniteKey if one is NaN or +Inf.
template <int kPer>
__device__ Best FindLargest(const SampleRow& row) {
  float largest = -INFINITY;
  int32_t at = INT32_MAX;
  bool bad = false;
  ForEachScore<kPer, 8>(row.logits, row.slice.count, [&](float x, int32_t i) {
    bad |= !(x < INFINITY);
    if (x > largest) {
      largest = x;
      at = row.slice.begin + i;
    }
  });
  // The sum turns -0 into 0, which it equals.
  return {bad ? kNotFiniteKey : ScoreKey(largest + 0.0f), at};
}

__device__ void MaskStopIds(const SlotState& state, const SampleRow& row) {
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < state.stop_id_count) {
    const int32_t at = state.stop_ids[i] - row.slice.begin;
    if (at >= 0 && at < row.slice.count) row.logits[at] = -INFINITY;
  }
  __syncthreads();
}

// z = (logit - largest) / temperature: the best is 0 and no temperature, however small, overflows
// into a NaN.
template <int kPer>
__device__ void Scale(const SampleRow& row, float largest, float temperature) {
  ForEachPack<kPer, 8>(row.logits, row.slice.count, [&](const auto& x, int32_t first) {
    constexpr int kCount = sizeof(x) / sizeof(float);
    float z[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) z[j] = (x[j] - largest) / temperature;
    StorePack(z, row.scores + first);
  });
  __syncthreads();
}

// -log(E) <= -log(v), and the leading zeros of v's bits bound that.
template <int kPer>
__device__ Best Draw(const SampleRow& row, const Cut& cut, float least, uint64_t key) {
  constexpr float kLn2 = 0.6931472f;
  float best = -INFINITY;
  int32_t at = INT32_MAX;
  ForEachScore<kPer, 2>(row.scores, row.slice.count, [&](float score, int32_t i) {
    if (score < least || score + kMaxNoise < best) return;
    const int32_t id = row.slice.begin + i;
    if (!cut.Keeps(ScoreKey(score), id)) return;
    const uint32_t bits = NoiseBits(key, id);
    const float bound = static_cast<float>(__clz(static_cast<int>(bits)) + 1) * kLn2 + 1e-3f;
    if (score + bound < best) return;
    const float noisy = score - logf(-log1pf(-NoiseUniform(bits)));
    if (noisy > best) {
      best = noisy;
      at = id;
    }
  });
  return {ScoreKey(best + 0.0f), at};
}

struct Choice {
  int32_t token = 0;
  int32_t flags = 0;
};

// Every thread of the cluster calls it. May overwrite the logits.
template <int kPer>
__device__ Choice ChooseToken(const SampleRow& row, SampleScratch& s) {
  const SlotState& state = s.state;
  Best largest = FindLargest<kPer>(row);
  WaitForCopies<0>();  // of the state, which the others see when all have met
  WaitForCluster();
  largest = ClusterBest(largest, row.slice, 0, s.best);
  if (state.done != 0) return {state.last_token, kOutcomeSurplus};
  if (largest.key != kNotFiniteKey && state.output_count < state.min_tokens) {
    MaskStopIds(state, row);
    largest = ClusterBest(FindLargest<kPer>(row), row.slice, 1, s.best);
  }
  if (largest.key == kNotFiniteKey || largest.key == ScoreKey(-INFINITY)) {
    return {-1, kOutcomeNotFinite};
  }
  if (state.temperature == 0) return {largest.id, 0};
  Scale<kPer>(row, ScoreOf(largest.key), state.temperature);
  const Cut cut =
      FindCut<kPer>(row.scores, row.slice, row.vocab, state.top_k, state.top_p, s.select);
  const float least = state.min_p > 0 ? logf(state.min_p) : -INFINITY;
  const Best drawn = Draw<kPer>(row, cut, least, NoiseKey(state.seed, state.output_count));
  const int turn = state.output_count < state.min_tokens ? 0 : 1;
  return {ClusterBest(drawn, row.slice, turn, s.best).id, 0};
}

// As CommitSample of the host.
__device__ void Commit(const Choice& choice, const SlotState& state, int32_t slot_id,
                       SlotState* slot, OutcomeRow* row) {
  OutcomeRow result = {slot_id, state.generation, choice.token, choice.flags};
  if ((choice.flags & kOutcomeNotFinite) != 0) {
    slot->done = 1;
  } else if (choice.flags == 0) {
    slot->last_token = choice.token;
    slot->output_count = state.output_count + 1;
    for (int32_t i = 0; i < state.stop_id_count; ++i) {
      if (state.stop_ids[i] != choice.token) continue;
      result.flags = kOutcomeStopId;
      slot->done = 1;
      break;
    }
  }
  *row = result;
}

// The step ends with its last row. ApplyRecord has set the stamp to 0.
__device__ void StampEnd(OutcomeHeader* header) {
  __threadfence();
  atomicMax(reinterpret_cast<long long*>(&header->end_ns), static_cast<long long>(GlobalNanos()));
}

// Grid (rows, 1, blocks of a cluster).
template <int kPer>
__global__ void __launch_bounds__(kSampleThreads, 2) SampleKernel(const SampleLaunch launch) {
  LetNextStart();
  WaitForInputs();
  const SampleArgs& a = launch.args;
  auto& scratch = *reinterpret_cast<SampleScratch*>(DynamicShared());
  const auto row = static_cast<int32_t>(blockIdx.x);
  const bool commits = blockIdx.z == 0 && threadIdx.x == 0;
  if (row >= a.record.header->sample_count) {
    if (row == 0 && commits) StampEnd(a.outcome.header);
    return;
  }
  ArriveAtCluster();
  const int32_t slot_id = a.record.samples[row].slot;
  SlotState* slot = &a.tables.slots[slot_id];
  FetchState(slot, scratch);
  const int32_t begin = static_cast<int32_t>(blockIdx.z) * launch.slice;
  const RowSlice slice = {begin, max(0, min(launch.slice, a.logits.cols - begin)), blockIdx.z,
                          gridDim.z};
  float* logits = RowOf<float>(a.logits, row) + begin;
  float* kept = reinterpret_cast<float*>(DynamicShared() + kScratchBytes);
  const Choice choice = ChooseToken<kPer>(
      {slice, logits, launch.scores_shared != 0 ? kept : logits, a.logits.cols}, scratch);
  if (!commits) return;
  Commit(choice, scratch.state, slot_id, slot, &a.outcome.rows[row]);
  StampEnd(a.outcome.header);
}

int32_t SliceOf(int32_t vocab, int blocks) {
  return static_cast<int32_t>(CeilDiv(CeilDiv(vocab, blocks), 4) * 4);
}

size_t SharedBytes(int32_t slice) {
  return kScratchBytes + sizeof(float) * static_cast<size_t>(slice);
}

// As many as the SMs take two of at once, and as a slice needs that lies in half an SM's memory;
// but no slice is shorter than one load a thread.
int BlocksOf(int64_t rows, int32_t vocab, int multiprocessors) {
  int blocks = 1;
  while (blocks < kMaxSampleBlocks && vocab / (2 * blocks) >= 4 * kSampleThreads &&
         (rows * blocks <= multiprocessors ||
          SharedBytes(SliceOf(vocab, blocks)) > kHalfSharedBytes)) {
    blocks *= 2;
  }
  return blocks;
}

}  // namespace

// At least one cluster, which stamps the end of a step that samples nothing.
void EnqueueSample(Stream& stream, const SampleArgs& a) {
  const int32_t rows = std::max(a.shape.max_samples, 1);
  const int blocks = BlocksOf(rows, a.logits.cols, OnCuda(stream).multiprocessors());
  const int32_t slice = SliceOf(a.logits.cols, blocks);
  const bool shared = SharedBytes(slice) <= kMaxSharedBytes;
  const size_t bytes = shared ? SharedBytes(slice) : kScratchBytes;
  const bool wide =
      a.logits.stride % 4 == 0 && reinterpret_cast<uintptr_t>(a.logits.data) % 16 == 0;
  WithPack(wide, [&](auto per) {
    constexpr auto kKernel = SampleKernel<decltype(per)::value>;
    AllowSharedBytes(stream, "sample", kKernel, kMaxSharedBytes);
    LaunchKernel(stream, "sample", kKernel,
                 {.grid = {static_cast<unsigned>(rows), 1, static_cast<unsigned>(blocks)},
                  .block = kSampleThreads,
                  .shared_bytes = bytes,
                  .cluster_z = blocks},
                 SampleLaunch{a, slice, shared ? 1 : 0});
  });
}

}  // namespace rally
