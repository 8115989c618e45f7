#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "client/inference_client.h"
#include "tests/server/test_server.h"

namespace rally {
namespace {

// Every sample of an exposition: "name{labels}" to value.
std::map<std::string, double> Samples(const std::string& text) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    const std::string key = line.substr(0, space);
    EXPECT_EQ(samples.count(key), 0u) << "twice: " << key;
    samples[key] = std::stod(line.substr(space + 1));
  }
  return samples;
}

double SumOf(const std::map<std::string, double>& samples, const std::string& prefix) {
  double sum = 0;
  for (const auto& [key, value] : samples) {
    if (key.rfind(prefix, 0) == 0) sum += value;
  }
  return sum;
}

CallResult Complete(InferenceClient& client, const v1::GenerateRequest& request,
                    absl::Duration deadline = absl::Seconds(20)) {
  const auto stream = client.Generate(request, deadline);
  v1::GenerateResponse message;
  while (stream->Next(&message)) {
  }
  return stream->Finish();
}

v1::GenerateRequest Prompt(int max_tokens) {
  v1::GenerateRequest request;
  request.set_text("a");
  request.set_max_tokens(max_tokens);
  return request;
}

// One request with each way to end, each on a server of its own, whose counters are added up.
TEST(MetricsTest, EachRequestCountsForOneOutcome) {
  std::map<std::string, double> sums;
  double received = 0;
  const auto collect = [&](TestServer& server, const std::string& expected) {
    ASSERT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
    const auto samples = Samples(RenderMetrics(server.metrics()));
    EXPECT_EQ(samples.at("rally_requests_total{outcome=\"" + expected + "\"}"), 1) << expected;
    EXPECT_EQ(SumOf(samples, "rally_requests_total{"), samples.at("rally_requests_received_total"));
    EXPECT_EQ(samples.at("rally_inflight_requests"), 0);
    received += samples.at("rally_requests_received_total");
    for (const auto& [key, value] : samples) sums[key] += value;
  };
  const std::pair<FinishReason, std::string> by_engine[] = {
      {FinishReason::kEos, "eos"},
      {FinishReason::kStopToken, "stop_token"},
      {FinishReason::kStopString, "stop_string"},
      {FinishReason::kLength, "length"},
      {FinishReason::kFailed, "failed"}};
  for (const auto& [reason, label] : by_engine) {
    TestServer server({.engines = {{.last_reason = reason}}});
    Complete(*InferenceClient::Create(server.address()), Prompt(1));
    collect(server, label);
  }
  {
    TestServer server;
    Complete(*InferenceClient::Create(server.address()), Prompt(0));
    collect(server, "rejected_invalid");
  }
  {
    TestServer server({.engines = {{.max_live = 0}}});
    Complete(*InferenceClient::Create(server.address()), Prompt(1));
    collect(server, "rejected_overload");
  }
  {
    TestServer server;
    server.engine().Lose();
    Complete(*InferenceClient::Create(server.address()), Prompt(1));
    collect(server, "rejected_unavailable");
  }
  {
    TestServer server;
    server.engine().SetPaused(true);
    Complete(*InferenceClient::Create(server.address()), Prompt(1), absl::Milliseconds(50));
    collect(server, "deadline");
  }
  {
    TestServer server;
    server.engine().SetPaused(true);
    const auto client = InferenceClient::Create(server.address());
    const auto stream = client->Generate(Prompt(1), absl::Seconds(20));
    ASSERT_TRUE(Eventually([&] { return server.engine().live() == 1; }));
    stream->Cancel();
    stream->Finish();
    collect(server, "cancelled");
  }
  EXPECT_EQ(SumOf(sums, "rally_requests_total{"), received);
  EXPECT_EQ(received, 10);
}

TEST(MetricsTest, NoLabelComesFromACaller) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  const size_t before = Samples(RenderMetrics(server.metrics())).size();
  for (int i = 0; i < 50; ++i) {
    v1::GenerateRequest request = Prompt(1);
    request.set_request_id(absl::StrCat("id-", i));
    if (i % 2 == 0) request.set_model(absl::StrCat("model-", i));
    Complete(*client, request);
  }
  EXPECT_EQ(Samples(RenderMetrics(server.metrics())).size(), before);
}

TEST(MetricsTest, HistogramsAreCumulativeAndAgreeWithTheirCount) {
  TestServer server;
  EngineStats& stats = server.engine().mutable_stats();
  stats.ttft.ObserveNanos(300'000'000);
  stats.ttft.ObserveNanos(300'000'000);
  stats.ttft.ObserveNanos(1'000'000'000'000);
  stats.idle_bubble_ns.Add(2'500'000'000);
  const auto samples = Samples(RenderMetrics(server.metrics()));
  const auto bucket = [&](const std::string& le) {
    return samples.at("rally_time_to_first_token_seconds_bucket{rank=\"fake:0\",le=\"" + le +
                      "\"}");
  };
  EXPECT_EQ(bucket("0.25"), 0);
  EXPECT_EQ(bucket("0.5"), 2);
  EXPECT_EQ(bucket("640"), 2);
  EXPECT_EQ(bucket("+Inf"), 3);
  EXPECT_EQ(samples.at("rally_time_to_first_token_seconds_count{rank=\"fake:0\"}"), 3);
  EXPECT_NEAR(samples.at("rally_time_to_first_token_seconds_sum{rank=\"fake:0\"}"), 1000.6, 1e-6);
  EXPECT_EQ(samples.at("rally_idle_seconds_total{rank=\"fake:0\",cause=\"bubble\"}"), 2.5);
}

TEST(MetricsTest, RanksOfOneNameStayApart) {
  TestServer server({.engines = {{.name = "host:0"}, {.name = "host:0"}}});
  const auto samples = Samples(RenderMetrics(server.metrics()));
  EXPECT_EQ(samples.count("rally_rank_up{rank=\"host:0\"}"), 1u);
  EXPECT_EQ(samples.count("rally_rank_up{rank=\"host:0#1\"}"), 1u);
}

TEST(MetricsTest, TheEndpointListensAndSaysWhenItCannot) {
  TestServer server;
  const auto first = MetricsEndpoint::Start("127.0.0.1:0", server.metrics());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      MetricsEndpoint::Start(absl::StrCat("127.0.0.1:", (*first)->port()), server.metrics());
  EXPECT_FALSE(second.ok());
}

TEST(MetricsTest, PromtoolFindsNoFault) {
  const char* promtool = std::getenv("PROMTOOL");
  const std::string program = promtool != nullptr ? promtool : "promtool";
  if (std::system(("command -v " + program + " >/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  TestServer server;
  server.engine().mutable_stats().step_time.ObserveNanos(1'000'000);
  const std::string path = testing::TempDir() + "/rally_metrics_test.txt";
  std::ofstream(path) << RenderMetrics(server.metrics());
  EXPECT_EQ(std::system((program + " check metrics < " + path).c_str()), 0);
}

}  // namespace
}  // namespace rally
