// Choosing tokens: greedy, filters, noise, and what may not be sampled.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "kernels/host/host_ops.h"
#include "kernels/noise.h"

namespace rally {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(int32_t n, uint32_t seed, float scale = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& x : logits) x = normal(random);
  return logits;
}

SampledToken Choose(const SlotState& slot, std::vector<float> logits) {
  return ChooseToken(slot, logits.data(), static_cast<int32_t>(logits.size()));
}

int32_t ArgMax(const std::vector<float>& x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

// Ids that turn up in `draws` draws.
std::set<int32_t> Support(SlotState slot, const std::vector<float>& logits, int32_t draws) {
  std::set<int32_t> ids;
  for (int32_t i = 0; i < draws; ++i) {
    slot.output_count = i;
    ids.insert(Choose(slot, logits).token);
  }
  return ids;
}

TEST(SampleTest, GreedyTakesTheSmallestOfEqualIds) {
  std::vector<float> logits(100, -1);
  for (const size_t id : {97u, 40u, 41u}) logits[id] = 3;
  EXPECT_EQ(Choose({.temperature = 0}, logits).token, 40);
  logits[5] = kInf * -1;
  EXPECT_EQ(Choose({.temperature = 0}, logits).token, 40);
}

TEST(SampleTest, TinyTemperaturesEqualGreedy) {
  for (const float temperature : {1e-3f, 1e-12f, FLT_MIN, FLT_MIN / 1000}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      std::vector<float> logits = RandomLogits(1000, seed, 1e4f);
      const SlotState slot{.seed = seed, .temperature = temperature, .top_p = 0.9f, .top_k = 50};
      EXPECT_EQ(Choose(slot, logits).token, ArgMax(logits)) << temperature;
    }
  }
}

TEST(SampleTest, FiltersKeepAtLeastTheBest) {
  const std::vector<float> logits = RandomLogits(500, 3);
  const int32_t best = ArgMax(logits);
  for (const SlotState& slot :
       {SlotState{.temperature = 5, .top_p = 1e-9f}, SlotState{.temperature = 5, .min_p = 1},
        SlotState{.temperature = 5, .top_k = 1},
        SlotState{.temperature = 5, .top_p = FLT_MIN, .min_p = 1, .top_k = 1}}) {
    EXPECT_EQ(Support(slot, logits, 50), std::set<int32_t>{best});
  }
}

TEST(SampleTest, TopKFromTheVocabularyOnIsOff) {
  const std::vector<float> logits = RandomLogits(64, 4);
  for (int32_t i = 0; i < 50; ++i) {
    const SlotState off{.output_count = i, .seed = 8, .temperature = 1.5f};
    const int32_t expected = Choose(off, logits).token;
    for (const int32_t top_k : {64, 65, 10000000, std::numeric_limits<int32_t>::max(), -1}) {
      SlotState slot = off;
      slot.top_k = top_k;
      EXPECT_EQ(Choose(slot, logits).token, expected) << top_k;
    }
  }
}

// The kept ids by sorting, in the order top_k, top_p of the rest, min_p.
std::set<int32_t> KeptBySorting(const SlotState& slot, const std::vector<float>& logits) {
  std::vector<std::pair<double, int32_t>> p;
  const double max = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) {
    p.push_back({-std::exp((logits[i] - max) / slot.temperature), static_cast<int32_t>(i)});
  }
  std::sort(p.begin(), p.end());
  if (slot.top_k > 0 && static_cast<size_t>(slot.top_k) < p.size()) {
    const double last = p[static_cast<size_t>(slot.top_k - 1)].first;
    while (p.back().first > last) p.pop_back();
  }
  double total = 0, sum = 0;
  for (const auto& [weight, id] : p) total -= weight;
  std::set<int32_t> kept;
  for (const auto& [weight, id] : p) {
    if (slot.top_p < 1 && sum >= slot.top_p * total) break;
    sum -= weight;
    if (-weight >= slot.min_p) kept.insert(id);
  }
  return kept;
}

// With a high temperature in front of the noise every kept id turns up soon.
TEST(SampleTest, FiltersKeepWhatSortingKeeps) {
  std::vector<float> ties = RandomLogits(60, 5, 1);
  for (size_t i = 0; i < ties.size(); i += 3) ties[i] = 0.5f;  // ties reach over every cut
  for (const std::vector<float>& logits : {RandomLogits(60, 6, 1), ties}) {
    for (const int32_t top_k : {0, 5, 25}) {
      for (const float top_p : {1.0f, 0.95f, 0.5f, 0.3f}) {
        for (const float min_p : {0.0f, 0.2f}) {
          const SlotState slot{
              .seed = 1, .temperature = 1.5f, .top_p = top_p, .min_p = min_p, .top_k = top_k};
          const std::set<int32_t> kept = KeptBySorting(slot, logits);
          const std::set<int32_t> drawn = Support(slot, logits, 6000);
          EXPECT_EQ(drawn, kept) << top_k << " " << top_p << " " << min_p;
        }
      }
    }
  }
}

// Pearson's statistic over n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1). Six sigma.
TEST(SampleTest, DrawsFollowTheSoftmax) {
  const int32_t n = 24, draws = 60000;
  const std::vector<float> logits = RandomLogits(n, 7, 1);
  double total = 0;
  for (const float x : logits) total += std::exp(x / 0.8);
  std::map<int32_t, int32_t> counts;
  SlotState slot{.seed = 1234, .temperature = 0.8f};
  for (int32_t i = 0; i < draws; ++i) {
    slot.output_count = i;
    ++counts[Choose(slot, logits).token];
  }
  double chi_square = 0;
  for (int32_t id = 0; id < n; ++id) {
    const double expected = draws * std::exp(logits[static_cast<size_t>(id)] / 0.8) / total;
    chi_square += std::pow(counts[id] - expected, 2) / expected;
  }
  EXPECT_LT(chi_square, (n - 1) + 6 * std::sqrt(2.0 * (n - 1)));
  EXPECT_GT(chi_square, (n - 1) - 4 * std::sqrt(2.0 * (n - 1)));
}

// The shortcut that skips hopeless ids must not change the winner.
TEST(SampleTest, TheDrawIsTheArgmaxOverAllIds) {
  for (int32_t i = 0; i < 300; ++i) {
    const std::vector<float> logits = RandomLogits(700, static_cast<uint32_t>(i), 3);
    const SlotState slot{.output_count = i, .seed = 77, .temperature = 1};
    const float max = *std::max_element(logits.begin(), logits.end());
    const uint64_t key = NoiseKey(77, i);
    int32_t best = -1;
    float best_score = -kInf;
    for (int32_t id = 0; id < 700; ++id) {
      const float e = -std::log1p(-NoiseUniform(NoiseBits(key, id)));
      const float score = (logits[static_cast<size_t>(id)] - max) - std::log(e);
      if (score > best_score) best_score = score, best = id;
    }
    ASSERT_EQ(Choose(slot, logits).token, best) << i;
  }
}

TEST(SampleTest, NotFiniteRowsGiveNoToken) {
  const std::vector<float> good = RandomLogits(50, 1);
  for (const float temperature : {0.0f, 1.0f}) {
    const SlotState slot{.temperature = temperature};
    for (const size_t place : {0u, 17u, 48u, 49u}) {
      for (const float bad : {kNaN, -kNaN, kInf}) {
        std::vector<float> logits = good;
        logits[place] = bad;
        EXPECT_EQ(Choose(slot, logits).flags, kOutcomeNotFinite) << bad << " at " << place;
      }
    }
    EXPECT_EQ(Choose(slot, std::vector<float>(50, -kInf)).flags, kOutcomeNotFinite);
    EXPECT_EQ(Choose(slot, std::vector<float>(50, kNaN)).flags, kOutcomeNotFinite);
    std::vector<float> one(50, -kInf);
    one[31] = -5;
    EXPECT_EQ(Choose(slot, one).flags, 0);
    EXPECT_EQ(Choose(slot, one).token, 31);
  }
}

TEST(SampleTest, NoStopIdBeforeTheMinimum) {
  std::vector<float> logits(10, 0);
  logits[3] = 30, logits[7] = 20, logits[5] = 10;
  for (const float temperature : {0.0f, 0.5f}) {
    SlotState slot{.output_count = 4,
                   .temperature = temperature,
                   .min_tokens = 5,
                   .stop_id_count = 3,
                   .stop_ids = {3, 7, 1000}};
    EXPECT_EQ(Choose(slot, logits).token, 5);
    slot.output_count = 5;
    EXPECT_EQ(Choose(slot, logits).token, 3);
  }
  const SlotState all_stop{.min_tokens = 1, .stop_id_count = 2, .stop_ids = {0, 1}};
  EXPECT_EQ(Choose(all_stop, {1, 2}).flags, kOutcomeNotFinite);
}

TEST(CommitSampleTest, AdvancesTheSlotOnce) {
  SlotState slot{
      .last_token = 1, .output_count = 2, .generation = 9, .stop_id_count = 1, .stop_ids = {6}};
  OutcomeRow row;
  CommitSample({.token = 5}, 3, &slot, &row);
  EXPECT_EQ(slot.last_token, 5);
  EXPECT_EQ(slot.output_count, 3);
  EXPECT_EQ(slot.done, 0);
  EXPECT_EQ(row.slot, 3);
  EXPECT_EQ(row.generation, 9u);
  EXPECT_EQ(row.token, 5);
  EXPECT_EQ(row.flags, 0);

  CommitSample({.token = 6}, 3, &slot, &row);
  EXPECT_EQ(row.flags, kOutcomeStopId);
  EXPECT_EQ(slot.done, 1);
  EXPECT_EQ(slot.output_count, 4);

  const SlotState ended = slot;
  CommitSample({.token = 2}, 3, &slot, &row);
  EXPECT_EQ(row.flags, kOutcomeSurplus);
  EXPECT_EQ(slot.last_token, ended.last_token);
  EXPECT_EQ(slot.output_count, ended.output_count);
}

TEST(CommitSampleTest, NotFiniteEndsTheSlotWithoutAToken) {
  SlotState slot{.last_token = 1, .output_count = 2};
  OutcomeRow row;
  CommitSample({.token = -1, .flags = kOutcomeNotFinite}, 1, &slot, &row);
  EXPECT_EQ(row.flags, kOutcomeNotFinite);
  EXPECT_EQ(slot.done, 1);
  EXPECT_EQ(slot.last_token, 1);
  EXPECT_EQ(slot.output_count, 2);
}

// One sequence alone, and in each row among others: the same token, whatever they are.
TEST(RunSampleTest, NeighboursDoNotMatter) {
  const StepLimits limits{8, 8, 8, 8, 9, 1};
  std::vector<std::byte> record_bytes(StepRecordView::Bytes(limits));
  std::vector<std::byte> outcome_bytes(StepOutcomeView::Bytes(limits));
  const StepRecordView record(record_bytes.data(), limits);
  const StepOutcomeView outcome(outcome_bytes.data(), limits);
  const int32_t vocab = 3000;
  const std::vector<float> mine = RandomLogits(vocab, 42);
  const SlotState me{.output_count = 11, .seed = 5, .temperature = 0.9f, .top_p = 0.9f};
  const int32_t solo = Choose(me, mine).token;
  for (int32_t rows = 1; rows <= 8; ++rows) {
    for (int32_t place = 0; place < rows; ++place) {
      std::vector<float> logits = RandomLogits(vocab * rows, 100 + static_cast<uint32_t>(rows));
      std::copy(mine.begin(), mine.end(), logits.begin() + place * vocab);
      if (rows > 2) logits[static_cast<size_t>((place + 1) % rows * vocab)] = kNaN;
      SlotState slots[9];
      for (int32_t r = 0; r < rows; ++r) {
        record.samples[r] = {0, r + 1};
        slots[r + 1] = r == place ? me
                                  : SlotState{.done = r % 3 == 2 ? 1 : 0,
                                              .seed = static_cast<uint64_t>(r),
                                              .temperature = r % 2 == 0 ? 0.0f : 1.3f,
                                              .top_k = 3 * r};
      }
      record.header->sample_count = rows;
      RunSample({record, outcome, {slots, nullptr, 1}, {logits.data(), DType::kF32, vocab, vocab}});
      EXPECT_EQ(outcome.rows[place].token, solo) << rows << " rows, in row " << place;
      EXPECT_EQ(slots[place + 1].output_count, 12);
      EXPECT_GT(outcome.header->end_ns, 0);
    }
  }
}

TEST(NoiseTest, TheUniformStaysInsideItsBounds) {
  EXPECT_EQ(NoiseUniform(0), 0x1p-33f);
  EXPECT_LT(NoiseUniform(0xffffffffu), 1.0f);
  EXPECT_LT(-std::log(-std::log1p(-NoiseUniform(0))), kMaxNoise);
  EXPECT_NE(NoiseKey(1, 2), NoiseKey(2, 1));
  EXPECT_NE(NoiseKey(0, 0), NoiseKey(0, 1));
}

}  // namespace
}  // namespace rally
