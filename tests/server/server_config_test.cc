#include "server/server_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace rally {
namespace {

using Kind = ConfigResult::Kind;

TEST(ServerConfigTest, FlagOverEnvironmentOverFileOverDefault) {
  const std::string path = testing::TempDir() + "/rally_server_config_test.toml";
  std::ofstream(path) << "max-rows=1\nmax-step-tokens=1\nkv-block-tokens=1\n";
  const std::vector<std::string> environment = {"RALLY_MAX_ROWS=2", "RALLY_MAX_STEP_TOKENS=2",
                                                "OTHER_MAX_ROWS=9"};
  const ConfigResult result =
      ParseServerConfig({"--model=m", "--max-rows", "3", "--config", path}, environment);
  ASSERT_EQ(result.kind, Kind::kRun) << result.text;
  EXPECT_EQ(result.config.engine.max_rows, 3);
  EXPECT_EQ(result.config.engine.max_step_tokens, 2);
  EXPECT_EQ(result.config.engine.kv_block_tokens, 1);
  EXPECT_EQ(result.config.engine.max_queued_requests, 256);
}

TEST(ServerConfigTest, ReadsSizesDurationsAndChoices) {
  const ConfigResult result =
      ParseServerConfig({"--model=m", "--kv-pool-bytes=3MiB", "--drain-timeout=1m30s",
                         "--loop=sync", "--max-connection-age=inf", "--metrics-listen=off",
                         "--max-prompt-bytes=64k", "--kv-pool=realloc", "--kv-cache=off",
                         "--graphs=off", "--kv-memory-fraction=0.5", "--max-chunk-tokens=7"},
                        {});
  ASSERT_EQ(result.kind, Kind::kRun) << result.text;
  EXPECT_EQ(result.config.engine.kv_pool_bytes, 3 << 20);
  EXPECT_EQ(result.config.drain_timeout, absl::Seconds(90));
  EXPECT_EQ(result.config.engine.loop, LoopKind::kSync);
  EXPECT_EQ(result.config.engine.kv_pool, KvPoolKind::kReallocated);
  EXPECT_FALSE(result.config.engine.kv_cache);
  EXPECT_FALSE(result.config.engine.graphs);
  EXPECT_EQ(result.config.engine.kv_memory_fraction, 0.5);
  EXPECT_EQ(result.config.engine.max_chunk_tokens, 7);
  EXPECT_EQ(result.config.max_connection_age, absl::InfiniteDuration());
  EXPECT_EQ(result.config.metrics_listen, "off");
  EXPECT_EQ(result.config.max_prompt_bytes, 64 << 10);
}

TEST(ServerConfigTest, TheDefaultsOfFlagsAreThoseOfTheStructs) {
  const ConfigResult result = ParseServerConfig({"--model=m"}, {});
  ASSERT_EQ(result.kind, Kind::kRun) << result.text;
  const ServerConfig plain;
  EXPECT_EQ(result.config.engine.loop, plain.engine.loop);
  EXPECT_EQ(result.config.engine.kv_pool, plain.engine.kv_pool);
  EXPECT_EQ(result.config.engine.kv_pool_bytes, plain.engine.kv_pool_bytes);
  EXPECT_EQ(result.config.engine.kv_memory_fraction, plain.engine.kv_memory_fraction);
  EXPECT_EQ(result.config.engine.kv_cache, plain.engine.kv_cache);
  EXPECT_EQ(result.config.engine.graphs, plain.engine.graphs);
  EXPECT_EQ(result.config.engine.max_chunk_tokens, plain.engine.max_chunk_tokens);
  EXPECT_EQ(result.config.engine.step_timeout, plain.engine.step_timeout);
  EXPECT_EQ(result.config.slow_reader_timeout, plain.slow_reader_timeout);
  EXPECT_EQ(result.config.keepalive_time, plain.keepalive_time);
  EXPECT_EQ(result.config.max_connection_age, plain.max_connection_age);
  EXPECT_EQ(result.config.max_connection_age_grace, plain.max_connection_age_grace);
  EXPECT_EQ(result.config.drain_delay, plain.drain_delay);
  EXPECT_EQ(result.config.drain_timeout, plain.drain_timeout);
}

TEST(ServerConfigTest, BadValuesNameTheFlag) {
  const struct {
    std::string arg;
    std::string flag;
  } cases[] = {
      {"--max-rows=0", "--max-rows"},
      {"--max-rows=many", "--max-rows"},
      {"--max-rows=99999999999", "--max-rows"},
      {"--kv-pool-bytes=12parsec", "--kv-pool-bytes"},
      {"--kv-pool-bytes=-1", "--kv-pool-bytes"},
      {"--kv-pool-bytes=99999999TiB", "--kv-pool-bytes"},
      {"--drain-timeout=soon", "--drain-timeout"},
      {"--drain-timeout=-1s", "--drain-timeout"},
      {"--step-timeout=0s", "--step-timeout"},
      {"--loop=pong", "--loop"},
      {"--kv-pool=elastic", "--kv-pool"},
      {"--kv-cache=maybe", "--kv-cache"},
      {"--graphs=1", "--graphs"},
      {"--kv-memory-fraction=0", "--kv-memory-fraction"},
      {"--kv-memory-fraction=1.5", "--kv-memory-fraction"},
      {"--kv-memory-fraction=most", "--kv-memory-fraction"},
      {"--dtype=int3", "--dtype"},
      {"--unknown=1", "--unknown"},
      {"--config=/no/such/file", "/no/such/file"},
  };
  for (const auto& c : cases) {
    const ConfigResult result = ParseServerConfig({"--model=m", c.arg}, {});
    EXPECT_EQ(result.kind, Kind::kError) << c.arg;
    EXPECT_THAT(result.text, testing::HasSubstr(c.flag)) << c.arg;
  }
  EXPECT_THAT(ParseServerConfig({}, {}).text, testing::HasSubstr("--model"));
  EXPECT_THAT(ParseServerConfig({"--model=m"}, {"RALLY_MAX_ROWS=x"}).text,
              testing::HasSubstr("--max-rows"));
}

TEST(ServerConfigTest, HelpNeedsNothingElse) {
  const ConfigResult result = ParseServerConfig({"--help"}, {});
  EXPECT_EQ(result.kind, Kind::kHelp);
  for (const char* flag :
       {"--kv-pool ", "--kv-pool-bytes", "--kv-memory-fraction", "--kv-cache", "--graphs"}) {
    EXPECT_THAT(result.text, testing::HasSubstr(flag));
  }
}

TEST(ServerConfigTest, WhatTheEngineSaysNamesFlags) {
  EXPECT_EQ(WithFlagNames("max_rows: 9 is not in [1, 4]"), "--max-rows: 9 is not in [1, 4]");
  EXPECT_EQ(WithFlagNames("KV pool: asked for 7; lower kv_pool_bytes or kv_memory_fraction"),
            "KV pool: asked for 7; lower --kv-pool-bytes or --kv-memory-fraction");
  EXPECT_EQ(WithFlagNames("/m/max_rows/x: my_max_rows, max_rows_2"),
            "/m/max_rows/x: my_max_rows, max_rows_2");
  EXPECT_EQ(WithFlagNames(""), "");
}

TEST(ServerConfigTest, TheResolvedConfigurationReadsBackTheSame) {
  const ConfigResult first =
      ParseServerConfig({"--model=/m o/d", "--kv-pool-bytes=3MiB", "--drain-delay=5s"}, {});
  ASSERT_EQ(first.kind, Kind::kRun) << first.text;
  const std::string path = testing::TempDir() + "/rally_resolved_test.toml";
  std::ofstream(path) << first.config.resolved;
  const ConfigResult second = ParseServerConfig({"--config=" + path}, {});
  ASSERT_EQ(second.kind, Kind::kRun) << second.text << first.config.resolved;
  EXPECT_EQ(second.config.model, "/m o/d");
  EXPECT_EQ(second.config.engine.kv_pool_bytes, 3 << 20);
  EXPECT_EQ(second.config.drain_delay, absl::Seconds(5));
}

}  // namespace
}  // namespace rally
