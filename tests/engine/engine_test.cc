// The engine with its threads, on the scripted device: what the simulation leaves out is the
// facade, the inbox and the emitters.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "tests/testing/collecting_sink.h"
#include "tests/testing/hash_chain_model.h"

namespace rally {
namespace {

EngineConfig SmallConfig() {
  EngineConfig config;
  config.max_rows = 4;
  config.max_step_tokens = 32;
  config.max_chunk_tokens = 32;
  config.kv_block_tokens = 4;
  config.kv_pool_bytes = 8 * 4 * 400;
  config.eos_ids = {0};
  return config;
}

const Vocabulary& TestVocabulary() {
  static const Vocabulary vocabulary = HashChainVocabulary();
  return vocabulary;
}

std::unique_ptr<Engine> NewEngine(const EngineConfig& config, DeviceScript script = {},
                                  int32_t context = 4096) {
  auto device = std::make_unique<ScriptedDevice>(script);
  auto model = std::make_unique<HashChainModel>(device.get(), context);
  auto engine = Engine::Create(config, std::move(device), std::move(model), &TestVocabulary());
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

RequestSpec Spec(uint64_t seed, int32_t max_tokens, int prompt = 5) {
  RequestSpec spec;
  for (int i = 0; i < prompt; ++i) spec.prompt_ids.push_back((seed + i) % kHashVocabulary);
  spec.sampling.seed = seed;
  spec.stop.max_tokens = max_tokens;
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

std::vector<int32_t> Expected(const RequestSpec& spec) {
  return HashChainStream({.prompt = spec.prompt_ids,
                          .seed = spec.sampling.seed,
                          .max_tokens = spec.stop.max_tokens,
                          .min_tokens = 0,
                          .stop_ids = {}});
}

TEST(EngineTest, ManyRequestsFromManyThreadsEachGetTheirStream) {
  auto engine = NewEngine(SmallConfig());
  std::vector<std::shared_ptr<CollectingSink>> sinks(40);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 40; i += 4) {
        sinks[i] = std::make_shared<CollectingSink>();
        EXPECT_TRUE(engine->Submit(Spec(i, 10 + i), sinks[i]).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 40; ++i) {
    const Finish finish = sinks[i]->WaitForFinish();
    EXPECT_EQ(finish.reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->ids(), Expected(Spec(i, 10 + i)));
    EXPECT_EQ(finish.completion_tokens, 10 + i);
    EXPECT_GE(finish.timings.total, finish.timings.ttft);
    EXPECT_GE(finish.timings.ttft, finish.timings.queue);
  }
  EXPECT_EQ(engine->outstanding_tokens(), 0);
}

TEST(EngineTest, SyncAndPingPongGiveTheSameTokens) {
  std::vector<std::vector<int32_t>> streams;
  for (LoopKind loop : {LoopKind::kSync, LoopKind::kPingPong}) {
    EngineConfig config = SmallConfig();
    config.loop = loop;
    auto engine = NewEngine(config);
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (int i = 0; i < 12; ++i) {
      sinks.push_back(std::make_shared<CollectingSink>());
      RequestSpec spec = Spec(i, 40);
      spec.stop.ignore_eos = false;
      ASSERT_TRUE(engine->Submit(spec, sinks.back()).ok());
    }
    std::vector<int32_t>& all = streams.emplace_back();
    for (auto& sink : sinks) {
      sink->WaitForFinish();
      const std::vector<int32_t> ids = sink->ids();
      all.insert(all.end(), ids.begin(), ids.end());
    }
  }
  EXPECT_EQ(streams[0], streams[1]);
}

TEST(EngineTest, CancelFreesTheRowAndEndsTheStream) {
  EngineConfig config = SmallConfig();
  config.max_rows = 1;
  config.kv_pool_bytes =
      8 * 4 * 20000;  // for a stream that is far from its end when it is cancelled
  auto engine = NewEngine(config, {}, 100000);
  auto first = std::make_shared<CollectingSink>();
  auto second = std::make_shared<CollectingSink>();
  const auto key = engine->Submit(Spec(1, 70000), first);
  ASSERT_TRUE(key.ok());
  ASSERT_TRUE(engine->Submit(Spec(2, 3), second).ok());
  first->WaitForTokens(2);
  engine->Cancel(*key, FinishReason::kCancelled);
  const Finish finish = first->WaitForFinish();
  EXPECT_EQ(finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(finish.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(second->WaitForFinish().reason, FinishReason::kLength);
  EXPECT_EQ(first->finishes(), 1);
}

TEST(EngineTest, ADeadlineThatHasPassedCostsNoDeviceWork) {
  auto engine = NewEngine(SmallConfig());
  auto sink = std::make_shared<CollectingSink>();
  RequestSpec spec = Spec(1, 10);
  spec.deadline = MonotonicClock::Get().Now() - absl::Seconds(1);
  ASSERT_TRUE(engine->Submit(spec, sink).ok());
  EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kDeadline);
  EXPECT_EQ(engine->stats().steps.value(), 0);
}

TEST(EngineTest, WhatNeverFitsIsRefusedWithBothNumbers) {
  EngineConfig config = SmallConfig();
  config.kv_pool_bytes = 8 * 4 * 6;  // 5 blocks of 4 tokens
  auto engine = NewEngine(config, {}, 64);
  const auto pool = engine->Submit(Spec(1, 1, 21), std::make_shared<CollectingSink>()).status();
  EXPECT_EQ(pool.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(pool.message().find("21 tokens"), std::string::npos) << pool;
  EXPECT_NE(pool.message().find("20 tokens"), std::string::npos) << pool;
  const auto context = engine->Submit(Spec(1, 1, 64), std::make_shared<CollectingSink>()).status();
  EXPECT_EQ(context.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->Submit(Spec(1, 1, 0), std::make_shared<CollectingSink>()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EngineTest, OutputEndsByLengthAtThePoolsWall) {
  EngineConfig config = SmallConfig();
  config.kv_pool_bytes = 8 * 4 * 6;
  auto engine = NewEngine(config, {}, 64);
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->Submit(Spec(1, 500, 10), sink).ok());
  const Finish finish = sink->WaitForFinish();
  EXPECT_EQ(finish.reason, FinishReason::kLength);
  EXPECT_EQ(finish.completion_tokens, 11) << "20 positions; the last token needs none";
}

TEST(EngineTest, AGrowingPoolGrowsAtJoinsUpToItsLimit) {
  for (KvPoolKind kind : {KvPoolKind::kMapped, KvPoolKind::kReallocated}) {
    EngineConfig config = SmallConfig();
    config.kv_pool = kind;
    config.kv_pool_bytes = 8 * 4 * 41;  // 40 blocks; each request below needs 11
    auto engine = NewEngine(config);
    EXPECT_LT(engine->memory().kv_pool_bytes, 8 * 4 * 5) << "little more than the warm-up took";
    auto alone = std::make_shared<CollectingSink>();
    ASSERT_TRUE(engine->Submit(Spec(100, 40), alone).ok());
    alone->WaitForFinish();
    EXPECT_EQ(alone->ids(), Expected(Spec(100, 40)));
    EXPECT_LE(engine->memory().kv_pool_bytes, 8 * 4 * 13);
    EXPECT_EQ(engine->stats().kv_pool_growths.value(), 1) << "once, when it joined";
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (int i = 0; i < 12; ++i) {
      sinks.push_back(std::make_shared<CollectingSink>());
      ASSERT_TRUE(engine->Submit(Spec(i, 40), sinks.back()).ok());
    }
    for (int i = 0; i < 12; ++i) {
      sinks[i]->WaitForFinish();
      EXPECT_EQ(sinks[i]->ids(), Expected(Spec(i, 40)));
    }
    EXPECT_LE(engine->memory().kv_pool_bytes, config.kv_pool_bytes);
    EXPECT_LE(engine->stats().kv_blocks_total.value(), 40);
    EXPECT_EQ(engine->stats().kv_pool_refusals.value(), 0);
  }
}

TEST(EngineTest, APoolThatCannotGrowServesWhatItHolds) {
  EngineConfig config = SmallConfig();
  config.kv_pool = KvPoolKind::kReallocated;
  config.kv_pool_bytes = 8 * 4 * 1001;
  config.max_rows = 1;
  DeviceScript script;
  script.largest_buffer_bytes = 8 * 4 * 600;  // of the buffers of a start, the largest has 13 KB
  auto engine = NewEngine(config, script);
  ASSERT_NE(engine, nullptr);
  auto large = std::make_shared<CollectingSink>();
  auto small = std::make_shared<CollectingSink>();
  auto medium = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->Submit(Spec(1, 1000, 3000), large).ok());
  ASSERT_TRUE(engine->Submit(Spec(2, 3), small).ok());
  ASSERT_TRUE(engine->Submit(Spec(3, 500, 1000), medium).ok());
  EXPECT_EQ(large->WaitForFinish().status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(small->WaitForFinish().reason, FinishReason::kLength);
  EXPECT_EQ(medium->WaitForFinish().reason, FinishReason::kLength) << "the pool took half";
  EXPECT_EQ(engine->stats().kv_pool_refusals.value(), 1);
  EXPECT_TRUE(engine->up());
}

TEST(EngineTest, AStartWithoutMemorySaysForWhatAndWhatToLower) {
  DeviceScript script;
  script.largest_buffer_bytes = 20000;
  auto device = std::make_unique<ScriptedDevice>(script);
  auto model = std::make_unique<HashChainModel>(device.get(), 64);
  EngineConfig config = SmallConfig();
  config.max_rows = 64;
  config.max_step_tokens = 64;
  config.kv_pool_bytes = 1 << 20;
  const absl::Status status =
      Engine::Create(config, std::move(device), std::move(model), &TestVocabulary()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (const char* word : {"asked for", "free are 20000", "lower"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status;
  }
}

TEST(EngineTest, AFullQueueRefusesAtOnce) {
  EngineConfig config = SmallConfig();
  config.max_rows = 1;
  config.max_queued_requests = 2;
  auto engine = NewEngine(config);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  absl::Status refused;
  for (int i = 0; i < 20 && refused.ok(); ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    refused = engine->Submit(Spec(i, 2000), sinks.back()).status();
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(sinks.back()->finishes(), 0) << "a refused request has no output";
}

TEST(EngineTest, DrainLetsRunningStreamsEnd) {
  auto engine = NewEngine(SmallConfig());
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->Submit(Spec(3, 50), sink).ok());
  engine->Drain(absl::InfiniteFuture());
  EXPECT_EQ(sink->WaitForFinish().reason, FinishReason::kLength);
  EXPECT_EQ(engine->Submit(Spec(4, 1), sink).status().code(), absl::StatusCode::kUnavailable);
}

TEST(EngineTest, TheDestructorEndsWhatStillRuns) {
  auto sink = std::make_shared<CollectingSink>();
  {
    auto engine = NewEngine(SmallConfig());
    ASSERT_TRUE(engine->Submit(Spec(3, 4000), sink).ok());
  }
  EXPECT_EQ(sink->finishes(), 1);
  EXPECT_EQ(sink->WaitForFinish().status.code(), absl::StatusCode::kUnavailable);
}

TEST(EngineTest, AFailedRankEndsItsStreamsAndNoOthers) {
  DeviceScript failing;
  failing.fail_at_op = 200;
  auto bad = NewEngine(SmallConfig(), failing);
  auto good = NewEngine(SmallConfig());
  std::vector<std::shared_ptr<CollectingSink>> lost;
  for (int i = 0; i < 6; ++i) {
    auto sink = std::make_shared<CollectingSink>();
    const absl::Status status = bad->Submit(Spec(i, 3000), sink).status();
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kUnavailable) << status;
    if (status.ok()) lost.push_back(sink);
  }
  ASSERT_FALSE(lost.empty());
  auto kept = std::make_shared<CollectingSink>();
  ASSERT_TRUE(good->Submit(Spec(9, 100), kept).ok());
  for (auto& sink : lost) {
    const Finish finish = sink->WaitForFinish();
    EXPECT_EQ(finish.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(finish.reason, FinishReason::kFailed);
  }
  EXPECT_FALSE(bad->up());
  EXPECT_EQ(bad->Submit(Spec(1, 1), kept).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(kept->WaitForFinish().reason, FinishReason::kLength);
  EXPECT_EQ(kept->ids(), Expected(Spec(9, 100)));
  EXPECT_TRUE(good->up());
}

TEST(EngineTest, AHungStepLosesTheRank) {
  DeviceScript hanging;
  hanging.hang_at_op = 100;
  auto engine = NewEngine(SmallConfig(), hanging);
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->Submit(Spec(1, 3000), sink).ok());
  EXPECT_EQ(sink->WaitForFinish().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine->up());
}

TEST(EngineTest, IdleTimeIsSplitByCause) {
  auto engine = NewEngine(SmallConfig());
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine->Submit(Spec(1, 20), sink).ok());
  sink->WaitForFinish();
  engine->Drain(absl::InfiniteFuture());
  const EngineStats& stats = engine->stats();
  EXPECT_GT(stats.steps.value(), 0);
  EXPECT_GT(stats.busy_ns.value(), 0);
  int64_t gaps = 0;
  for (size_t i = 0; i < stats.idle_bubble.bucket_count(); ++i) gaps += stats.idle_bubble.bucket(i);
  EXPECT_EQ(gaps, stats.steps.value() - 1);
}

}  // namespace
}  // namespace rally
