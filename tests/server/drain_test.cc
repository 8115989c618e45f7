#include "server/drain.h"

#include <gtest/gtest.h>

#include <thread>

#include "client/inference_client.h"
#include "tests/server/test_server.h"

namespace rally {
namespace {

using Health = InferenceClient::Health;

v1::GenerateRequest Prompt(int max_tokens) {
  v1::GenerateRequest request;
  request.set_text("a");
  request.set_max_tokens(max_tokens);
  return request;
}

int CountTokens(GenerateStream& stream) {
  int tokens = 0;
  v1::GenerateResponse message;
  while (stream.Next(&message)) tokens += message.delta().token_ids_size();
  return tokens;
}

Health CheckHealth(InferenceClient& client, const std::string& service = "") {
  Health health = Health::kUnknown;
  EXPECT_TRUE(client.CheckHealth(service, absl::Seconds(5), &health).ok());
  return health;
}

bool NoHurry(absl::Duration wait) {
  absl::SleepFor(wait);
  return false;
}

class DrainTest : public testing::Test {
 protected:
  std::thread StartDrain(DrainTimes times, HurryWait hurry = NoHurry) {
    return std::thread([this, times, hurry = std::move(hurry)] {
      Drain(times, hurry, server_.router(), server_.service(), server_.grpc());
    });
  }

  TestServer server_;
  std::unique_ptr<InferenceClient> client_ = InferenceClient::Create(server_.address());
};

TEST_F(DrainTest, RunningStreamsEndWhole) {
  EXPECT_EQ(CheckHealth(*client_), Health::kServing);
  EXPECT_EQ(CheckHealth(*client_, "rally.v1.GenerationService"), Health::kServing);
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(client_->Generate(Prompt(200), absl::Seconds(20)));
  ASSERT_TRUE(Eventually([&] { return server_.engine().live() == 8; }));

  std::thread drain = StartDrain({absl::Milliseconds(60), absl::Seconds(15)});
  ASSERT_TRUE(Eventually([&] { return CheckHealth(*client_) == Health::kNotServing; }));
  EXPECT_EQ(CheckHealth(*client_, "rally.v1.GenerationService"), Health::kNotServing);
  // Within the delay requests are still taken; after it they are not.
  const auto late = client_->Generate(Prompt(3), absl::Seconds(20));
  EXPECT_EQ(CountTokens(*late), 3);
  EXPECT_TRUE(late->Finish().ok());
  CallResult refused;
  ASSERT_TRUE(Eventually([&] {
    const auto stream = client_->Generate(Prompt(1), absl::Seconds(20));
    CountTokens(*stream);
    refused = stream->Finish();
    return !refused.ok();
  }));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refused.reason, "DRAINING");

  for (const auto& stream : streams) {
    EXPECT_EQ(CountTokens(*stream), 200);
    EXPECT_TRUE(stream->Finish().ok()) << stream->Finish().status;
  }
  drain.join();
}

TEST_F(DrainTest, AtTheTimeoutTheRestEndsWithAStatus) {
  server_.engine().SetPaused(true);
  const auto stream = client_->Generate(Prompt(5), absl::Seconds(20));
  ASSERT_TRUE(Eventually([&] { return server_.engine().live() == 1; }));
  const absl::Time start = absl::Now();
  std::thread drain = StartDrain({absl::ZeroDuration(), absl::Milliseconds(100)});
  EXPECT_EQ(CountTokens(*stream), 0);
  const CallResult result = stream->Finish();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.reason, "UNAVAILABLE");
  drain.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  EXPECT_EQ(server_.ended(Outcome::kFailed), 1);
}

TEST_F(DrainTest, ASecondSignalCutsTheWaits) {
  server_.engine().SetPaused(true);
  const auto stream = client_->Generate(Prompt(5), absl::Seconds(60));
  ASSERT_TRUE(Eventually([&] { return server_.engine().live() == 1; }));
  const absl::Time start = absl::Now();
  std::thread drain =
      StartDrain({absl::Hours(1), absl::Hours(1)}, [](absl::Duration) { return true; });
  CountTokens(*stream);
  EXPECT_EQ(stream->Finish().status.code(), absl::StatusCode::kUnavailable);
  drain.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
}

TEST_F(DrainTest, ASecondServerOnThePortIsAnError) {
  TestServer other;
  EXPECT_FALSE(
      GrpcServer::Start({.listen = server_.address()}, other.service().grpc_service()).ok());
}

}  // namespace
}  // namespace rally
