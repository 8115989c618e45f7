// Real models through the whole engine on the host device: the tokens are those of transformers,
// whatever the loop, the chunks, the company, a preemption or the number of ranks (rule 12).
// fixtures/make_checkpoints.py made the expectations.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "kernels/device/host_device.h"
#include "tests/testing/collecting_sink.h"

namespace rally {
namespace {

struct Expectation {
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
};

std::string Checkpoint(const std::string& name) {
  return std::string(RALLY_SOURCE_DIR) + "/tests/fixtures/checkpoints/" + name;
}

std::vector<Expectation> ReadExpectations(const std::string& name) {
  std::ifstream file(Checkpoint(name) + "/expected.json");
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << name;
  std::vector<Expectation> expectations;
  for (const auto& p : json["prompts"]) expectations.push_back({p["ids"], p["greedy"]});
  return expectations;
}

// The tests look at ids alone.
const Vocabulary& NoText() {
  static const Vocabulary vocabulary({});
  return vocabulary;
}

EngineConfig Config(LoopKind loop) {
  EngineConfig config;
  config.loop = loop;
  config.max_rows = 8;
  config.max_step_tokens = 64;
  config.max_chunk_tokens = 64;
  config.kv_block_tokens = 4;
  return config;
}

std::unique_ptr<Engine> NewEngine(const std::string& name, EngineConfig config, int ordinal = 0,
                                  int32_t kv_blocks = 200) {
  auto device = NewHostDevice({.ordinal = ordinal, .threads = 1});
  auto source = OpenModel(Checkpoint(name), LoadFormat::kAuto, 0);
  EXPECT_TRUE(device.ok() && source.ok()) << source.status();
  auto model = Transformer::Create(**device, *std::move(source), DType::kF32);
  EXPECT_TRUE(model.ok()) << model.status();
  config.kv_pool_bytes = (*model)->KvBlockBytes(config.kv_block_tokens) * (kv_blocks + 1);
  auto engine = Engine::Create(config, *std::move(device), *std::move(model), &NoText());
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

RequestSpec Greedy(const Expectation& expectation) {
  RequestSpec spec;
  spec.prompt_ids = expectation.prompt;
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = static_cast<int32_t>(expectation.greedy.size());
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

RequestSpec Sampled(uint64_t seed) {
  RequestSpec spec;
  for (uint64_t i = 0; i < 3 + seed % 17; ++i) {
    spec.prompt_ids.push_back(static_cast<int32_t>((seed * 31 + i * 7) % 256));
  }
  spec.sampling.temperature = 0.7f;
  spec.sampling.top_k = 40;
  spec.sampling.top_p = 0.9f;
  spec.sampling.seed = seed;
  spec.stop.max_tokens = static_cast<int32_t>(5 + seed % 40);
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

// All prompts at once, among seeded requests that join and leave, one of them cancelled.
void ExpectGreedyAmongOthers(Engine* engine, const std::vector<Expectation>& expectations) {
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  std::vector<std::shared_ptr<CollectingSink>> others;
  const auto join = [&](uint64_t seed) {
    others.push_back(std::make_shared<CollectingSink>());
    const auto key = engine->Submit(Sampled(seed), others.back());
    ASSERT_TRUE(key.ok()) << key.status();
    if (seed % 3 == 0) engine->Cancel(*key, FinishReason::kCancelled);
  };
  uint64_t seed = 1;
  for (const Expectation& expectation : expectations) {
    join(seed++);
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(engine->Submit(Greedy(expectation), sinks.back()).ok());
    sinks.back()->WaitForTokens(2);
    join(seed++);
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->WaitForFinish().status, absl::OkStatus());
    EXPECT_EQ(sinks[i]->ids(), expectations[i].greedy) << "prompt " << i;
  }
  for (auto& sink : others) sink->WaitForFinish();
}

class GenerationTest : public testing::TestWithParam<std::string> {};

TEST_P(GenerationTest, BothLoopsGiveTheReferencesTokens) {
  const auto expectations = ReadExpectations(GetParam());
  for (LoopKind loop : {LoopKind::kSync, LoopKind::kPingPong}) {
    auto engine = NewEngine(GetParam(), Config(loop));
    ExpectGreedyAmongOthers(engine.get(), expectations);
  }
}

TEST_P(GenerationTest, ChunksOfSevenChangeNothing) {
  EngineConfig config = Config(LoopKind::kPingPong);
  config.max_chunk_tokens = 7;
  config.max_step_tokens = 9;
  config.max_rows = 4;
  auto engine = NewEngine(GetParam(), config);
  ExpectGreedyAmongOthers(engine.get(), ReadExpectations(GetParam()));
}

TEST_P(GenerationTest, APreemptionInTheMiddleChangesNothing) {
  const auto expectations = ReadExpectations(GetParam());
  for (LoopKind loop : {LoopKind::kSync, LoopKind::kPingPong}) {
    EngineConfig config = Config(loop);
    size_t longest = 0;
    for (const Expectation& e : expectations) {
      longest = std::max(longest, e.prompt.size() + e.greedy.size());
    }
    // The longest fits alone, two do not fit together.
    const auto blocks = static_cast<int32_t>(longest / config.kv_block_tokens + 2);
    auto engine = NewEngine(GetParam(), config, 0, blocks);
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (const Expectation& e : expectations) {
      sinks.push_back(std::make_shared<CollectingSink>());
      ASSERT_TRUE(engine->Submit(Greedy(e), sinks.back()).ok());
    }
    for (size_t i = 0; i < sinks.size(); ++i) {
      sinks[i]->WaitForFinish();
      EXPECT_EQ(sinks[i]->ids(), expectations[i].greedy) << "prompt " << i;
    }
    engine->Drain(absl::InfiniteFuture());
    EXPECT_GT(engine->stats().preemptions.value(), 0);
  }
}

void ExpectEveryBlockBack(Engine* engine) {
  engine->Drain(absl::InfiniteFuture());
  // The last terminal event comes before the end of the last step in flight.
  const EngineStats& stats = engine->stats();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (stats.kv_blocks_free.value() < stats.kv_blocks_total.value() && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(stats.kv_blocks_free.value(), stats.kv_blocks_total.value());
}

TEST_P(GenerationTest, AGrowingPoolChangesNothing) {
  const auto expectations = ReadExpectations(GetParam());
  for (KvPoolKind kind : {KvPoolKind::kMapped, KvPoolKind::kReallocated}) {
    for (LoopKind loop : {LoopKind::kSync, LoopKind::kPingPong, LoopKind::kCopyStream}) {
      EngineConfig config = Config(loop);
      config.kv_pool = kind;
      config.graphs = loop != LoopKind::kSync;
      auto engine = NewEngine(GetParam(), config);
      ExpectGreedyAmongOthers(engine.get(), expectations);
      ExpectEveryBlockBack(engine.get());
      EXPECT_GT(engine->stats().kv_pool_growths.value(), 0);
      EXPECT_LE(engine->stats().kv_blocks_total.value(), 200);
    }
  }
}

TEST_P(GenerationTest, WithoutAKvCacheTheTokensAreTheSame) {
  const auto expectations = ReadExpectations(GetParam());
  for (LoopKind loop : {LoopKind::kSync, LoopKind::kPingPong}) {
    EngineConfig config = Config(loop);
    config.kv_cache = false;
    config.max_step_tokens = 300;  // a context, and not all rows at once
    auto engine = NewEngine(GetParam(), config);
    ExpectGreedyAmongOthers(engine.get(), expectations);
    ExpectEveryBlockBack(engine.get());
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GenerationTest,
                         testing::Values("gpt2_tiny", "llama_tiny", "llama3_tiny", "qwen2_tiny",
                                         "qwen3_tiny"),
                         [](const auto& name) { return name.param; });

TEST(RanksTest, TwoRanksGiveTheTokensOfOne) {
  constexpr uint64_t kRequests = 24;
  auto one = NewEngine("llama_tiny", Config(LoopKind::kPingPong));
  auto left = NewEngine("llama_tiny", Config(LoopKind::kPingPong), 0);
  auto right = NewEngine("llama_tiny", Config(LoopKind::kPingPong), 1);
  EXPECT_EQ(right->device_name(), "host:1");
  std::vector<std::shared_ptr<CollectingSink>> alone, split;
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    alone.push_back(std::make_shared<CollectingSink>());
    split.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE(one->Submit(Sampled(seed), alone.back()).ok());
    ASSERT_TRUE((seed % 2 == 0 ? left : right)->Submit(Sampled(seed), split.back()).ok());
  }
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    alone[seed]->WaitForFinish();
    split[seed]->WaitForFinish();
    EXPECT_EQ(alone[seed]->ids(), split[seed]->ids()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rally
