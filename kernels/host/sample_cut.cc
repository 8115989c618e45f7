#include "kernels/host/sample_cut.h"

#include <algorithm>
#include <cmath>

#include "kernels/host/simd.h"

namespace rally {
namespace {

constexpr int kLevels = 3;
constexpr int kShifts[kLevels] = {21, 10, 0};  // digits of 11, 11 and 10 bits
constexpr int kBins = 1 << 11;

// Weights of sixteen scores: 1 each, or their probabilities.
struct One {
  RALLY_INLINE V16 operator()(const V16&) const { return V16{} + 1.0f; }
};
struct Probability {
  RALLY_INLINE V16 operator()(const V16& z) const { return Exp(z); }
};

// Calls fn(key, weight) for each score whose key is at least `least`.
template <typename Weight, typename Fn>
RALLY_INLINE void ForEachWeight(const float* z, int32_t n, uint32_t least, const Fn& fn) {
  for (int32_t i = 0; i < n; i += kLanes) {
    const int32_t count = std::min(kLanes, n - i);
    V16 scores{};
    std::memcpy(&scores, z + i, sizeof(float) * static_cast<size_t>(count));
    const V16 weights = Weight()(scores);
    for (int32_t j = 0; j < count; ++j) {
      const uint32_t key = ScoreKey(z[i + j]);
      if (key >= least) fn(key, static_cast<double>(weights[j]));
    }
  }
}

// Where the weights of the scores from the best on reach a target.
struct Crossing {
  uint32_t key = 0;     // the score at which they do
  double missing = 0;   // what the scores above leave to reach
  double weight = 0;    // of all scores with this key
  int32_t count = 0;    // how many those are
};

// One digit a level: a histogram of the scores that share the digits found so far.
template <typename Weight>
RALLY_INLINE Crossing FindCrossing(const float* z, int32_t n, uint32_t least, double target) {
  Crossing crossing{.missing = target};
  double weights[kBins];
  int32_t counts[kBins];
  for (int level = 0; level < kLevels; ++level) {
    const int shift = kShifts[level];
    const int above = level == 0 ? 32 : kShifts[level - 1];
    std::fill_n(weights, kBins, 0.0);
    std::fill_n(counts, kBins, 0);
    ForEachWeight<Weight>(z, n, least, [&](uint32_t key, double weight) {
      if (uint64_t{key} >> above != uint64_t{crossing.key} >> above) return;
      const uint32_t digit = (key >> shift) & ((1u << (above - shift)) - 1);
      weights[digit] += weight;
      ++counts[digit];
    });
    int bin = kBins - 1;
    int lowest = bin;
    for (; bin >= 0; --bin) {
      if (counts[bin] == 0) continue;
      lowest = bin;
      if (weights[bin] >= crossing.missing) break;
      crossing.missing -= weights[bin];
    }
    // Rounding may leave a rest after the last score: then the last one is the crossing.
    if (bin < 0) crossing.missing += weights[lowest];
    bin = lowest;
    crossing.key |= static_cast<uint32_t>(bin) << shift;
    crossing.weight = weights[bin];
    crossing.count = counts[bin];
  }
  return crossing;
}

RALLY_SIMD_CLONES Crossing CountCrossing(const float* z, int32_t n, double target) {
  return FindCrossing<One>(z, n, 0, target);
}

RALLY_SIMD_CLONES Crossing MassCrossing(const float* z, int32_t n, uint32_t least, double top_p) {
  double total = 0;
  ForEachWeight<Probability>(z, n, least, [&](uint32_t, double weight) { total += weight; });
  return FindCrossing<Probability>(z, n, least, top_p * total);
}

}  // namespace

Cut TopKCut(const float* z, int32_t n, int32_t k) {
  if (k <= 0 || k >= n) return {};
  return {.key = CountCrossing(z, n, k).key};
}

Cut TopPCut(const float* z, int32_t n, const Cut& within, float top_p) {
  if (top_p >= 1) return within;
  const Crossing crossing = MassCrossing(z, n, within.key, top_p);
  const double each = crossing.weight / crossing.count;
  const double needed = each > 0 ? std::ceil(crossing.missing / each) : crossing.count;
  return {.key = crossing.key,
          .ties = static_cast<int32_t>(std::clamp(needed, 1.0, double{1} * crossing.count))};
}

}  // namespace rally
