#include "kernels/host/sample_cut.h"

#include <algorithm>
#include <cmath>

#include "kernels/host/simd.h"

namespace rally {
namespace {

constexpr int kLevels = 3;
constexpr int kShifts[kLevels] = {21, 10, 0};  // digits of 11, 11 and 10 bits
constexpr int kBins = 1 << 11;

struct Bins {
  double weights[kBins];
  int32_t counts[kBins];

  void Clear() {
    std::fill_n(weights, kBins, 0.0);
    std::fill_n(counts, kBins, 0);
  }
  void Add(uint32_t bin, double weight) {
    weights[bin] += weight;
    ++counts[bin];
  }
};

// A score's weight: 1, or its probability.
struct One {
  RALLY_INLINE V16 operator()(const V16&) const { return V16{} + 1.0f; }
};
struct Probability {
  RALLY_INLINE V16 operator()(const V16& z) const { return Exp(z); }
};

// Level 0: all scores whose key is at least `least`, by their first digit.
template <typename Weight>
RALLY_INLINE void FillFirst(const float* z, int32_t n, uint32_t least, Bins& bins) {
  for (int32_t i = 0; i < n; i += kLanes) {
    const int32_t count = std::min(kLanes, n - i);
    V16 scores{};
    std::memcpy(&scores, z + i, sizeof(float) * static_cast<size_t>(count));
    const V16 weights = Weight()(scores);
    for (int32_t j = 0; j < count; ++j) {
      const uint32_t key = ScoreKey(z[i + j]);
      if (key >= least) bins.Add(key >> kShifts[0], static_cast<double>(weights[j]));
    }
  }
}

// Later levels: the few scores that share the digits found so far, by their next digit.
template <typename Weight>
RALLY_INLINE void FillNext(const float* z, int32_t n, uint32_t least, uint32_t found, int level,
                           Bins& bins) {
  const int above = kShifts[level - 1];
  const uint32_t mask = (1u << (above - kShifts[level])) - 1;
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t key = ScoreKey(z[i]);
    if (((key ^ found) >> above) != 0 || key < least) continue;
    bins.Add((key >> kShifts[level]) & mask, static_cast<double>(Weight()(V16{} + z[i])[0]));
  }
}

// Where the weights of the scores from the best on reach a target.
struct Crossing {
  uint32_t key = 0;    // the score at which they do
  double missing = 0;  // what the scores above leave to reach
  double weight = 0;   // of all scores with this key
  int32_t count = 0;   // how many those are
};

// Goes down one level into the bin in which the target is reached. Rounding may leave a rest after
// the last score: then that one is the crossing.
void Descend(const Bins& bins, int shift, Crossing* crossing) {
  int last = -1;
  for (int bin = kBins - 1; bin >= 0; --bin) {
    if (bins.counts[bin] == 0) continue;
    if (last >= 0) crossing->missing -= bins.weights[last];
    last = bin;
    if (bins.weights[bin] >= crossing->missing) break;
  }
  crossing->key |= static_cast<uint32_t>(last) << shift;
  crossing->weight = bins.weights[last];
  crossing->count = bins.counts[last];
}

// The target is `share` of the weight of all scores, or `amount`.
template <typename Weight>
RALLY_INLINE Crossing FindCrossing(const float* z, int32_t n, uint32_t least, double share,
                                   double amount) {
  Bins bins;
  bins.Clear();
  FillFirst<Weight>(z, n, least, bins);
  Crossing crossing{.missing = amount};
  for (const double weight : bins.weights) crossing.missing += share * weight;
  Descend(bins, kShifts[0], &crossing);
  for (int level = 1; level < kLevels; ++level) {
    bins.Clear();
    FillNext<Weight>(z, n, least, crossing.key, level, bins);
    Descend(bins, kShifts[level], &crossing);
  }
  return crossing;
}

RALLY_SIMD_CLONES Crossing CountCrossing(const float* z, int32_t n, int32_t k) {
  return FindCrossing<One>(z, n, 0, 0, k);
}

RALLY_SIMD_CLONES Crossing MassCrossing(const float* z, int32_t n, uint32_t least, float top_p) {
  return FindCrossing<Probability>(z, n, least, static_cast<double>(top_p), 0);
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
