#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/host/host_clock.h"
#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/sample_cut.h"
#include "kernels/host/simd.h"
#include "kernels/noise.h"

namespace rally {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Range {
  float max = -kInfinity;
  bool finite = true;  // neither NaN nor +Inf
};

RALLY_SIMD_CLONES Range RangeOf(const float* x, int32_t n) {
  V16 max = V16{} - kInfinity;
  V16i bad{};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V16 v;
    Load(x + i, &v);
    bad |= ~(v < kInfinity);
    max = Max(v, max);
  }
  Range range;
  for (int j = 0; j < kLanes; ++j) {
    range.max = std::max(range.max, max[j]);
    range.finite &= bad[j] == 0;
  }
  for (; i < n; ++i) {
    range.max = std::max(range.max, x[i]);
    range.finite &= x[i] < kInfinity;
  }
  return range;
}

// z = (logit - max) / temperature: the best is 0 and no temperature, however small, overflows into
// a NaN.
RALLY_SIMD_CLONES void Scale(float max, float temperature, float* logits, int32_t n) {
  for (int32_t i = 0; i < n; ++i) logits[i] = (logits[i] - max) / temperature;
}

// Ids are tried in order and noise is computed only where it could win: -log(E) <= -log(v), and the
// leading zeros of v's bits bound that.
int32_t Draw(const float* z, int32_t n, const Cut& cut, float least, uint64_t key) {
  constexpr float kLn2 = 0.6931472f;
  int32_t best_id = 0;
  float best = -kInfinity;
  int32_t ties = cut.ties;
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t score_key = ScoreKey(z[i]);
    if (score_key < cut.key || z[i] < least) continue;
    if (score_key == cut.key && ties-- <= 0) continue;
    if (z[i] + kMaxNoise < best) continue;
    const uint32_t bits = NoiseBits(key, i);
    if (z[i] + static_cast<float>(std::countl_zero(bits) + 1) * kLn2 + 1e-3f < best) continue;
    const float score = z[i] - std::log(-std::log1p(-NoiseUniform(bits)));
    if (score > best) {
      best = score;
      best_id = i;
    }
  }
  return best_id;
}

void MaskStopIds(const SlotState& slot, float* logits, int32_t vocab) {
  for (int32_t i = 0; i < slot.stop_id_count; ++i) {
    const int32_t id = slot.stop_ids[i];
    if (id >= 0 && id < vocab) logits[id] = -kInfinity;
  }
}

bool IsStopId(const SlotState& slot, int32_t token) {
  const int32_t* end = slot.stop_ids + slot.stop_id_count;
  return std::find(slot.stop_ids, end, token) != end;
}

}  // namespace

SampledToken ChooseToken(const SlotState& slot, float* logits, int32_t vocab) {
  Range range = RangeOf(logits, vocab);
  if (range.finite && slot.output_count < slot.min_tokens) {
    MaskStopIds(slot, logits, vocab);
    range = RangeOf(logits, vocab);
  }
  if (!range.finite || range.max == -kInfinity) return {.token = -1, .flags = kOutcomeNotFinite};
  if (slot.temperature == 0) {
    return {.token = static_cast<int32_t>(std::find(logits, logits + vocab, range.max) - logits)};
  }
  Scale(range.max, slot.temperature, logits, vocab);
  // In the order of Hugging Face and vLLM: top_k, then top_p of what is left, then min_p.
  const Cut cut = TopPCut(logits, vocab, TopKCut(logits, vocab, slot.top_k), slot.top_p);
  const float least = slot.min_p > 0 ? std::log(slot.min_p) : -kInfinity;
  return {.token = Draw(logits, vocab, cut, least, NoiseKey(slot.seed, slot.output_count))};
}

void CommitSample(const SampledToken& sampled, int32_t slot_id, SlotState* slot, OutcomeRow* row) {
  *row = {.slot = slot_id, .generation = slot->generation, .token = sampled.token, .flags = 0};
  if (slot->done != 0) {
    row->token = slot->last_token;
    row->flags = kOutcomeSurplus;
    return;
  }
  row->flags = sampled.flags;
  if ((sampled.flags & kOutcomeNotFinite) != 0) {
    slot->done = 1;
    return;
  }
  slot->last_token = sampled.token;
  slot->output_count += 1;
  if (IsStopId(*slot, sampled.token)) {
    row->flags |= kOutcomeStopId;
    slot->done = 1;
  }
}

void RunSample(const SampleArgs& a) {
  const int32_t vocab = a.logits.cols;
  const int32_t samples = a.record.header->sample_count;
  ParallelFor(samples, int64_t{samples} * vocab, [&](int64_t s) {
    const int32_t slot_id = a.record.samples[s].slot;
    SlotState* slot = &a.tables.slots[slot_id];
    SampledToken sampled;
    if (slot->done == 0) sampled = ChooseToken(*slot, a.logits.row<float>(s), vocab);
    CommitSample(sampled, slot_id, slot, &a.outcome.rows[s]);
  });
  a.outcome.header->end_ns = HostClockNanos();
}

}  // namespace rally
