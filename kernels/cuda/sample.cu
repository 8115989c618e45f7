// The last kernel of a step: a block a row of V logits chooses a token, advances the slot, fills
// the outcome row and raises the end stamp.
//
// Greedy rows read 4 V bytes. Sampled rows are read again for each thing asked: once to scale, 4
// times to find each of the top-k and top-p cuts, once to draw, most of it from the L1 cache. The
// draw is argmax(z_i - log(E_i)); noise is computed only where it could still win in its thread.
// Whatever order threads run in, the result is the same, ties included.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/sample_select.cuh"
#include "kernels/noise.h"

namespace rally {
namespace {

// The larger score wins, and of equal ones the smaller id.
struct Best {
  float score = -INFINITY;
  int32_t id = 0;
};

__device__ Best Better(const Best& a, const Best& b) {
  return b.score > a.score || (b.score == a.score && b.id < a.id) ? b : a;
}

struct SampleScratch {
  Best best[kWarp];
  SelectScratch select;
};

// The best of the block, in every thread.
__device__ Best BlockBest(Best mine, SampleScratch& s) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int round = 0; round < 2; ++round) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      const Best other = {__shfl_xor_sync(kFullWarp, mine.score, offset),
                          __shfl_xor_sync(kFullWarp, mine.id, offset)};
      mine = Better(mine, other);
    }
    if (round == 1) break;
    if (lane == 0) s.best[threadIdx.x / kWarp] = mine;
    __syncthreads();
    mine = s.best[lane];
  }
  __syncthreads();
  return mine;
}

// The smallest id with the largest logit; `finite` says that none is NaN or +Inf.
__device__ Best FindLargest(const float* logits, int32_t n, SampleScratch& s, bool* finite) {
  Best best{-INFINITY, INT32_MAX};
  bool bad = false;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kSampleThreads) {
    const float x = logits[i];
    bad |= !(x < INFINITY);
    if (x > best.score) best = {x, i};
  }
  *finite = __syncthreads_or(bad) == 0;
  return BlockBest(best, s);
}

__device__ void MaskStopIds(const SlotState& slot, float* logits, int32_t n) {
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < slot.stop_id_count) {
    const int32_t id = slot.stop_ids[i];
    if (id >= 0 && id < n) logits[id] = -INFINITY;
  }
  __syncthreads();
}

// -log(E) <= -log(v), and the leading zeros of v's bits bound that.
__device__ Best Draw(const float* z, int32_t n, const Cut& cut, float least, uint64_t key) {
  constexpr float kLn2 = 0.6931472f;
  Best best{-INFINITY, INT32_MAX};
  for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kSampleThreads) {
    const float score = z[i];
    if (score < least || score + kMaxNoise < best.score) continue;
    if (!cut.Keeps(ScoreKey(score), i)) continue;
    const uint32_t bits = NoiseBits(key, i);
    const float bound = static_cast<float>(__clz(static_cast<int>(bits)) + 1) * kLn2 + 1e-3f;
    if (score + bound < best.score) continue;
    const float noisy = score - logf(-log1pf(-NoiseUniform(bits)));
    if (noisy > best.score) best = {noisy, i};
  }
  return best;
}

struct Choice {
  int32_t token = 0;
  int32_t flags = 0;  // kOutcomeNotFinite, or 0
};

// Every thread of the block calls it for a slot that is not done. Overwrites the logits.
__device__ Choice ChooseToken(const SlotState& slot, float* logits, int32_t n, SampleScratch& s) {
  bool finite;
  Best largest = FindLargest(logits, n, s, &finite);
  if (finite && slot.output_count < slot.min_tokens) {
    MaskStopIds(slot, logits, n);
    largest = FindLargest(logits, n, s, &finite);
  }
  if (!finite || largest.score == -INFINITY) return {-1, kOutcomeNotFinite};
  if (slot.temperature == 0) return {largest.id, 0};
  // The best is 0 and no temperature, however small, overflows into a NaN.
  for (auto i = static_cast<int32_t>(threadIdx.x); i < n; i += kSampleThreads) {
    logits[i] = (logits[i] - largest.score) / slot.temperature;
  }
  __syncthreads();
  const Cut cut = FindCut(logits, n, slot.top_k, slot.top_p, s.select);
  const float least = slot.min_p > 0 ? logf(slot.min_p) : -INFINITY;
  const Best drawn = Draw(logits, n, cut, least, NoiseKey(slot.seed, slot.output_count));
  return {BlockBest(drawn, s).id, 0};
}

// As CommitSample of the host.
__device__ void Commit(const Choice& choice, int32_t slot_id, SlotState* slot, OutcomeRow* row) {
  OutcomeRow result = {slot_id, slot->generation, choice.token, choice.flags};
  if ((choice.flags & kOutcomeNotFinite) != 0) {
    slot->done = 1;
  } else {
    slot->last_token = choice.token;
    slot->output_count += 1;
    for (int32_t i = 0; i < slot->stop_id_count; ++i) {
      if (slot->stop_ids[i] != choice.token) continue;
      result.flags |= kOutcomeStopId;
      slot->done = 1;
      break;
    }
  }
  *row = result;
}

// The step ends with its last block. ApplyRecord has set the stamp to 0.
__device__ void StampEnd(OutcomeHeader* header) {
  __threadfence();
  atomicMax(reinterpret_cast<long long*>(&header->end_ns), static_cast<long long>(GlobalNanos()));
}

__global__ void __launch_bounds__(kSampleThreads) SampleKernel(const SampleArgs a) {
  LetNextStart();
  WaitForInputs();
  __shared__ SampleScratch scratch;
  __shared__ SlotState state;
  const auto row = static_cast<int32_t>(blockIdx.x);
  if (row < a.record.header->sample_count) {
    const int32_t slot_id = a.record.samples[row].slot;
    SlotState* slot = &a.tables.slots[slot_id];
    if (threadIdx.x == 0) state = *slot;
    __syncthreads();
    OutcomeRow* outcome = &a.outcome.rows[row];
    if (state.done != 0) {
      if (threadIdx.x == 0) {
        *outcome = {slot_id, state.generation, state.last_token, kOutcomeSurplus};
      }
    } else {
      const Choice choice = ChooseToken(state, RowOf<float>(a.logits, row), a.logits.cols, scratch);
      if (threadIdx.x == 0) Commit(choice, slot_id, slot, outcome);
    }
  } else if (row > 0) {
    return;
  }
  if (threadIdx.x == 0) StampEnd(a.outcome.header);
}

}  // namespace

// At least one block, which stamps the end of a step that samples nothing.
void EnqueueSample(Stream& stream, const SampleArgs& a) {
  const auto rows = static_cast<unsigned>(std::max(a.shape.max_samples, 1));
  LaunchKernel(stream, "sample", SampleKernel, {rows, kSampleThreads}, a);
}

}  // namespace rally
