// From a configuration and a device's memory to the sizes of an engine.
#include "engine/engine_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/hash_chain_model.h"

namespace rally {
namespace {

using testing::HasSubstr;

constexpr int32_t kContext = 64;

// Blocks of 4 tokens take 32 bytes, and 16 of them are a context.
EngineConfig SmallConfig() {
  EngineConfig config;
  config.max_rows = 4;
  config.max_step_tokens = kContext;
  config.max_chunk_tokens = 8;
  config.kv_block_tokens = 4;
  return config;
}

absl::StatusOr<EnginePlan> Plan(const EngineConfig& config, const DeviceMemory& memory = {}) {
  const ScriptedDevice device({});
  const HashChainModel model(&device, kContext);
  return PlanEngine(config, model, memory);
}

TEST(EnginePlanTest, ThePoolTakesItsShareOfADevicesOwnMemory) {
  EngineConfig config = SmallConfig();
  config.kv_memory_fraction = 0.5;
  const DeviceMemory gpu = {.free_bytes = 1280, .total_bytes = 9999, .own = true};
  EXPECT_EQ(Plan(config, gpu)->block_count, 19) << "of 20 blocks one is the null block";
  config.kv_pool_bytes = 10 * 32;
  EXPECT_EQ(Plan(config, gpu)->block_count, 9) << "an explicit size wins";
  config.kv_pool_bytes = 0;
  EXPECT_EQ(Plan(config, {.free_bytes = 1280, .total_bytes = 9999})->block_count, 4 * 16)
      << "shared memory: 256 MiB, of which all rows at full context can use so many";
}

TEST(EnginePlanTest, APoolWithoutABlockNamesWhatDecidedItsSize) {
  EngineConfig config = SmallConfig();
  const DeviceMemory full = {.free_bytes = 40, .total_bytes = 9999, .own = true};
  EXPECT_THAT(std::string(Plan(config, full).status().message()), HasSubstr("kv_memory_fraction"));
  config.kv_pool_bytes = 40;
  EXPECT_THAT(std::string(Plan(config, full).status().message()), HasSubstr("kv_pool_bytes"));
}

TEST(EnginePlanTest, OnlyGrowingPoolsGrow) {
  EngineConfig config = SmallConfig();
  config.kv_pool_bytes = 10 * 32;
  EXPECT_EQ(Plan(config)->scheduler.max_blocks, 0);
  for (KvPoolKind kind : {KvPoolKind::kMapped, KvPoolKind::kReallocated}) {
    config.kv_pool = kind;
    EXPECT_EQ(Plan(config)->scheduler.max_blocks, 9);
  }
}

TEST(EnginePlanTest, WithoutAKvCacheAStepHoldsAContext) {
  EngineConfig config = SmallConfig();
  config.kv_cache = false;
  EXPECT_EQ(Plan(config)->scheduler.max_chunk_tokens, kContext) << "prefixes are not cut";
  config.max_step_tokens = kContext - 1;
  const absl::Status status = Plan(config).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_step_tokens: 63"));
  config.context_tokens = kContext - 1;
  EXPECT_TRUE(Plan(config).ok());
}

TEST(EnginePlanTest, FractionsLieAboveZeroAndUpToOne) {
  EngineConfig config = SmallConfig();
  for (double bad : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    config.kv_memory_fraction = bad;
    EXPECT_THAT(std::string(Plan(config).status().message()), HasSubstr("kv_memory_fraction"));
  }
}

}  // namespace
}  // namespace rally
