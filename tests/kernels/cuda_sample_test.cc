// Sampling on the GPU against the host's: the same tokens, slots and outcomes.
//
// Both sides have the same noise bits; logarithms and exponentials differ in their last place. So
// tokens are equal unless two scores are closer than that, which is what a difference must show.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/host/host_ops.h"
#include "kernels/noise.h"
#include "tests/kernels/cuda_op_test.h"

namespace rally {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(int64_t n, uint32_t seed, float scale = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& x : logits) x = normal(random);
  return logits;
}

class CudaSampleTest : public CudaOpTest {
 protected:
  // Row r samples for slot r + 1, whose state is states[r]. On the device rows start aligned to 32
  // bytes, or one after the other.
  enum class Rows { kAligned, kDense };
  void Run(const std::vector<SlotState>& states, const std::vector<float>& logits, int32_t vocab,
           Rows placement = Rows::kAligned) {
    const auto rows = static_cast<int32_t>(states.size());
    const int32_t most = rows + padding_rows_;
    const int32_t stride = placement == Rows::kAligned ? (vocab + 7) / 8 * 8 : vocab;
    const StepLimits limits{most, most, most, 1, most + 1, 1};
    std::vector<std::byte> bytes(StepRecordView::Bytes(limits));
    std::vector<std::byte> outcome(StepOutcomeView::Bytes(limits));
    const StepRecordView record(bytes.data(), limits);
    record.header->sample_count = rows;
    for (int32_t r = 0; r < rows; ++r) record.samples[r] = {0, r + 1};
    before_ = after_host_ = {SlotState{}};
    before_.insert(before_.end(), states.begin(), states.end());
    after_host_ = after_cuda_ = before_;
    logits_ = logits;
    vocab_ = vocab;

    const StepOutcomeView device_outcome(Send(outcome), limits);
    const SlotTables tables{Send(before_), nullptr, 1};
    ops().sample(*stream_, {StepRecordView(Send(bytes), limits),
                            device_outcome,
                            tables,
                            {SendRows(logits, vocab, stride), DType::kF32, vocab, stride},
                            {most, most, most, 0}});
    cuda_.resize(states.size());
    host_.resize(states.size());
    Receive(device_outcome.rows, states.size(), cuda_.data());
    Receive(tables.slots, before_.size(), after_cuda_.data());
    Receive(device_outcome.header, 1, &header_);
    buffers_.clear();

    std::vector<float> scratch = logits;
    const StepOutcomeView host_outcome(outcome.data(), limits);
    RunSample({record,
               host_outcome,
               {after_host_.data(), nullptr, 1},
               {scratch.data(), DType::kF32, vocab, vocab},
               {}});
    std::copy_n(host_outcome.rows, rows, host_.begin());
  }

  float* SendRows(const std::vector<float>& logits, int32_t vocab, int32_t stride) {
    std::vector<float> rows(
        logits.size() / static_cast<size_t>(vocab) * static_cast<size_t>(stride), kNaN);
    for (size_t i = 0; i < logits.size(); ++i) {
      const size_t row = i / static_cast<size_t>(vocab);
      rows[row * static_cast<size_t>(stride) + i % static_cast<size_t>(vocab)] = logits[i];
    }
    return Send(rows);
  }

  double Score(size_t row, int32_t id) const {
    const SlotState& slot = before_[row + 1];
    const uint32_t bits = NoiseBits(NoiseKey(slot.seed, slot.output_count), id);
    const double z = double{logits_[row * static_cast<size_t>(vocab_) + static_cast<size_t>(id)]} /
                     double{slot.temperature};
    return z - std::log(-std::log1p(-double{NoiseUniform(bits)}));
  }

  // Every row equal, but for near ties.
  void ExpectEqual() {
    for (size_t r = 0; r < host_.size(); ++r) {
      if (cuda_[r].token != host_[r].token && before_[r + 1].temperature > 0 &&
          host_[r].flags == 0 && cuda_[r].flags == 0) {
        EXPECT_NEAR(Score(r, cuda_[r].token), Score(r, host_[r].token), 1e-4) << "row " << r;
        ++near_ties_;
        continue;
      }
      EXPECT_EQ(std::memcmp(&cuda_[r], &host_[r], sizeof(OutcomeRow)), 0)
          << "row " << r << ": " << cuda_[r].token << " flags " << cuda_[r].flags << ", not "
          << host_[r].token << " flags " << host_[r].flags;
      EXPECT_EQ(std::memcmp(&after_cuda_[r + 1], &after_host_[r + 1], sizeof(SlotState)), 0)
          << "slot of row " << r;
    }
    EXPECT_GT(header_.end_ns, 0);
  }

  std::vector<SlotState> before_, after_host_, after_cuda_;
  std::vector<float> logits_;
  std::vector<OutcomeRow> host_, cuda_;
  OutcomeHeader header_;
  int32_t vocab_ = 0;
  int32_t padding_rows_ = 2;  // of the launch
  int32_t near_ties_ = 0;
};

TEST_F(CudaSampleTest, GreedyTakesTheSmallestOfEqualIds) {
  for (const int32_t vocab : {1, 31, 1000, 50257}) {
    std::vector<float> logits = RandomLogits(4 * int64_t{vocab}, 1);
    for (float& x : logits) x = std::round(x);
    for (const Rows rows : {Rows::kAligned, Rows::kDense}) {
      Run(std::vector<SlotState>(4), logits, vocab, rows);
      ExpectEqual();
    }
  }
}

// Every mix of filters, over many seeds; small vocabularies and those of real models, of which the
// largest gets a third.
TEST_F(CudaSampleTest, DrawsWhatTheHostDraws) {
  for (const int32_t vocab : {5, 60, 1000, 50257, 151936}) {
    std::vector<SlotState> states;
    std::mt19937 random(static_cast<uint32_t>(vocab));
    for (const int32_t top_k : {0, 1, 7, 50, 2000}) {
      for (const float top_p : {1.0f, 0.95f, 0.5f, 1e-6f}) {
        for (const float min_p : {0.0f, 0.1f}) {
          if (vocab > 100000 && random() % 3 != 0) continue;
          const float temperature = std::array{0.2f, 0.7f, 1.0f, 1.8f, 50.0f}[random() % 5];
          states.push_back({.output_count = static_cast<int32_t>(random() % 1000),
                            .generation = 3,
                            .seed = random(),
                            .temperature = temperature,
                            .top_p = top_p,
                            .min_p = min_p,
                            .top_k = top_k});
        }
      }
    }
    const int repeats = vocab > 1000 ? 1 : 12;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (SlotState& state : states) state.seed += 7919;
      Run(states,
          RandomLogits(int64_t{vocab} * static_cast<int64_t>(states.size()),
                       static_cast<uint32_t>(repeat), 3),
          vocab, vocab < 100 ? Rows::kDense : Rows::kAligned);
      ExpectEqual();
    }
  }
  EXPECT_LE(near_ties_, 2);
}

// Equal scores reach over every cut, so that the smallest ids of a tie are told from the others.
TEST_F(CudaSampleTest, TiesAcrossTheCut) {
  for (const int32_t vocab : {60, 3001, 50257}) {
    std::vector<float> logits = RandomLogits(int64_t{vocab} * 60, 5, 1);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (i % 3 == 0) logits[i] = 0.5f;
      if (vocab > 5000 && i % 2 == 0) logits[i] = 4;
    }
    std::vector<SlotState> states;
    for (int32_t r = 0; r < 60; ++r) {
      states.push_back({.output_count = r,
                        .seed = 99,
                        .temperature = 1.3f,
                        .top_p = 0.05f + 0.015f * static_cast<float>(r),
                        .top_k = r % 3 * 10});
    }
    Run(states, logits, vocab);
    ExpectEqual();
  }
}

// More rows leave fewer blocks to each: 8, 4, 2 and 1 on any GPU of 35 to 139 multiprocessors, and
// in the emulation, which has 4. The larger steps hold the rows of the first one many times.
TEST_F(CudaSampleTest, DoesNotDependOnHowManyBlocksShareARow) {
  constexpr int32_t kVocab = 16500;
  constexpr size_t kKinds = 4;
  padding_rows_ = 0;
  std::vector<float> logits = RandomLogits(kKinds * int64_t{kVocab}, 11);
  for (size_t i = 0; i < logits.size(); i += 2) logits[i] = std::round(logits[i]);
  const std::vector<SlotState> kinds = {
      {},
      {.seed = 3, .temperature = 1.1f},
      {.seed = 4, .temperature = 0.9f, .top_p = 0.7f, .top_k = 500},
      {.output_count = 2,
       .seed = 5,
       .temperature = 1.5f,
       .top_p = 0.35f,
       .min_p = 1e-3f,
       .min_tokens = 9,
       .stop_id_count = 2,
       .stop_ids = {77, 16499}}};
  std::vector<OutcomeRow> expected;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const auto row = logits.begin() + static_cast<int64_t>(kind) * kVocab;
    Run({kinds[kind]}, {row, row + kVocab}, kVocab);
    ExpectEqual();
    expected.push_back(cuda_[0]);
  }
  EXPECT_EQ(near_ties_, 0);
  for (const size_t rows : {size_t{2}, size_t{4}, size_t{8}, size_t{40}, size_t{70}, size_t{140}}) {
    std::vector<SlotState> states;
    std::vector<float> many;
    for (size_t r = 0; r < rows; ++r) {
      const auto row = logits.begin() + static_cast<int64_t>(r % kKinds) * kVocab;
      states.push_back(kinds[r % kKinds]);
      many.insert(many.end(), row, row + kVocab);
    }
    Run(states, many, kVocab);
    for (size_t r = 0; r < rows; ++r) EXPECT_EQ(cuda_[r].token, expected[r % kKinds].token) << r;
  }
}

// Too long for the shared memory of a cluster.
TEST_F(CudaSampleTest, VastVocabularies) {
  constexpr int32_t kVocab = 420'001;
  padding_rows_ = 0;
  Run({SlotState{}, {.temperature = 1, .top_p = 0.8f, .top_k = 3000}}, RandomLogits(2 * kVocab, 12),
      kVocab);
  ExpectEqual();
}

TEST_F(CudaSampleTest, RowsThatGiveNoToken) {
  const int32_t vocab = 2500;
  const auto n = static_cast<size_t>(vocab);
  for (const float temperature : {0.0f, 0.8f}) {
    std::vector<SlotState> states(8, SlotState{.temperature = temperature, .top_p = 0.9f});
    std::vector<float> logits = RandomLogits(8 * int64_t{vocab}, 6);
    logits[0] = kNaN;
    logits[n + 2499] = kInf;
    std::fill_n(logits.begin() + 2 * vocab, n, -kInf);
    std::fill_n(logits.begin() + 3 * vocab, n, kNaN);
    std::fill_n(logits.begin() + 4 * vocab, n, -kInf);
    logits[4 * n + 1234] = -5;  // the only one that can be sampled
    states[5].done = 1;         // surplus
    states[5].last_token = 17;
    states[6].min_tokens = 1;  // all that it may sample is masked
    states[6].stop_id_count = 2;
    states[6].stop_ids[0] = 3;
    states[6].stop_ids[1] = 9;
    std::fill_n(logits.begin() + 6 * vocab, n, -kInf);
    logits[6 * n + 3] = logits[6 * n + 9] = 1;
    states[7] = states[6];  // a NaN counts even where it would be masked
    logits[7 * n + 3] = kNaN;
    Run(states, logits, vocab);
    ExpectEqual();
    EXPECT_EQ(cuda_[4].token, 1234);
    EXPECT_EQ(cuda_[5].flags, kOutcomeSurplus);
    for (const size_t r : {0u, 1u, 2u, 3u, 6u, 7u}) EXPECT_EQ(cuda_[r].flags, kOutcomeNotFinite);
  }
}

TEST_F(CudaSampleTest, StopIdsAndTheMinimum) {
  const int32_t vocab = 300;
  std::vector<SlotState> states;
  std::vector<float> logits = RandomLogits(20 * int64_t{vocab}, 7);
  for (int32_t r = 0; r < 20; ++r) {
    SlotState slot{.output_count = r, .min_tokens = 10, .stop_id_count = 3};
    slot.temperature = r % 2 == 0 ? 0.0f : 0.5f;
    slot.stop_ids[0] = 250;
    slot.stop_ids[1] = -1;
    slot.stop_ids[2] = 100000;
    logits[static_cast<size_t>(r * vocab + 250)] = 40;
    states.push_back(slot);
  }
  Run(states, logits, vocab);
  ExpectEqual();
  for (size_t r = 0; r < 20; ++r) {
    EXPECT_EQ(cuda_[r].token == 250, r >= 10) << r;
    EXPECT_EQ(cuda_[r].flags, r >= 10 ? kOutcomeStopId : 0) << r;
    EXPECT_EQ(after_cuda_[r + 1].done, r >= 10 ? 1 : 0) << r;
  }
}

TEST_F(CudaSampleTest, TinyTemperaturesEqualGreedy) {
  std::vector<SlotState> states;
  for (const float temperature : {1e-3f, 1e-12f, 1e-38f, 1e-42f}) {
    states.push_back({.temperature = temperature, .top_p = 0.9f, .top_k = 50});
  }
  Run(states, RandomLogits(4000, 8, 1e4f), 1000);
  for (size_t r = 0; r < states.size(); ++r) {
    const auto row = logits_.begin() + static_cast<int64_t>(r) * 1000;
    EXPECT_EQ(cuda_[r].token, std::max_element(row, row + 1000) - row);
  }
}

TEST_F(CudaSampleTest, AStepWithoutSamplesIsStampedToo) {
  Run({}, {0}, 1);
  EXPECT_GT(header_.end_ns, 0);
}

}  // namespace
}  // namespace rally
