#include "server/inference_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "client/inference_client.h"
#include "rally/v1/generation.grpc.pb.h"
#include "tests/server/test_server.h"

namespace rally {
namespace {

using testing::HasSubstr;

struct Generated {
  std::string text;
  int tokens = 0;
  int finished_count = 0;
  bool finished_last = false;
  v1::Finished finished;
  CallResult result;
};

Generated ReadAll(GenerateStream& stream) {
  Generated all;
  v1::GenerateResponse message;
  while (stream.Next(&message)) {
    all.text += message.delta().text();
    all.tokens += message.delta().token_ids_size();
    all.finished_last = message.has_finished();
    if (message.has_finished()) {
      ++all.finished_count;
      all.finished = message.finished();
    }
  }
  all.result = stream.Finish();
  return all;
}

v1::GenerateRequest Prompt(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_max_tokens(max_tokens);
  return request;
}

Generated Generate(InferenceClient& client, const v1::GenerateRequest& request,
                   absl::Duration deadline = absl::Seconds(20)) {
  return ReadAll(*client.Generate(request, deadline));
}

TEST(InferenceServiceTest, StreamsDeltasThenOneFinished) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  v1::GenerateRequest request = Prompt("hello", 4);
  request.set_request_id("me");
  request.set_seed(42);
  const Generated all = Generate(*client, request);
  EXPECT_TRUE(all.result.ok()) << all.result.status;
  EXPECT_EQ(all.text, "t0 t1 t2 t3 ");
  EXPECT_EQ(all.tokens, 4);
  EXPECT_EQ(all.finished_count, 1);
  EXPECT_TRUE(all.finished_last);
  EXPECT_EQ(all.finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(all.finished.usage().prompt_tokens(), 5);
  EXPECT_EQ(all.finished.usage().completion_tokens(), 4);
  EXPECT_EQ(all.finished.request_id(), "me");
  EXPECT_EQ(all.finished.seed(), 42u);
  EXPECT_EQ(all.finished.timings().ttft_ms(), 3);
  const RequestSpec spec = server.engine().accepted().front();
  EXPECT_EQ(spec.prompt_ids, (std::vector<int32_t>{'h', 'e', 'l', 'l', 'o'}));
  EXPECT_LT(spec.deadline, absl::Now() + absl::Seconds(21));
}

TEST(InferenceServiceTest, TokenIdsGoPastTheTokenizer) {
  TestServer server({.on_encode = [] { ADD_FAILURE() << "encoded"; }});
  const auto client = InferenceClient::Create(server.address());
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(256);
  request.set_max_tokens(1);
  const Generated all = Generate(*client, request, absl::InfiniteDuration());
  EXPECT_TRUE(all.result.ok()) << all.result.status;
  EXPECT_NE(all.finished.request_id(), "");
  EXPECT_EQ(server.engine().accepted().front().prompt_ids, std::vector<int32_t>{256});
  EXPECT_EQ(server.engine().accepted().front().deadline, absl::InfiniteFuture());
}

TEST(InferenceServiceTest, RefusalsCarryDetails) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  v1::GenerateRequest request = Prompt("hello", 4);
  request.set_top_p(2);
  CallResult result = Generate(*client, request).result;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(result.reason, "INVALID_FIELD");
  ASSERT_EQ(result.field_violations.size(), 1u);
  EXPECT_EQ(result.field_violations[0].first, "top_p");
  EXPECT_FALSE(result.retry_delay.has_value());

  request = Prompt("hello", 4);
  request.set_model("huge");
  result = Generate(*client, request).result;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(result.reason, "MODEL_NOT_FOUND");

  result = Generate(*client, Prompt(std::string(1024, 'x'), 4)).result;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()),
              testing::AllOf(HasSubstr("1024 tokens"), HasSubstr("context of 1024")));
  EXPECT_TRUE(server.engine().accepted().empty());
}

TEST(InferenceServiceTest, AFullQueueTellsWhenToRetryWithoutAHeader) {
  TestServer server({.engines = {{.max_live = 0}}});
  auto channel = grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
  auto stub = v1::GenerationService::NewStub(channel);
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, Prompt("a", 1));
  v1::GenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_GT(std::stoi(std::string(pushback->second.data(), pushback->second.size())), 0);
  EXPECT_EQ(server.ended(Outcome::kRejectedOverload), 1);
}

TEST(InferenceServiceTest, ARetryingClientGetsThroughABusySpell) {
  TestServer server({.engines = {{.max_live = 1}}});
  server.engine().SetPaused(true);
  const auto client = InferenceClient::Create(server.address(), 4);
  const auto first = client->Generate(Prompt("a", 1), absl::Seconds(20));
  ASSERT_TRUE(Eventually([&] { return server.engine().live() == 1; }));
  std::thread unblock([&] {
    EXPECT_TRUE(Eventually([&] { return server.ended(Outcome::kRejectedOverload) >= 1; }));
    server.engine().SetPaused(false);
  });
  const Generated second = Generate(*client, Prompt("b", 2));
  unblock.join();
  EXPECT_TRUE(second.result.ok()) << second.result.status;
  EXPECT_EQ(second.text, "t0 t1 ");
}

TEST(InferenceServiceTest, TheInflightCapComesBeforeAnyWork) {
  std::atomic<int> encoded{0};
  TestServer server({.service = {.max_inflight_requests = 2, .log_requests = false},
                     .on_encode = [&] { ++encoded; }});
  server.engine().SetPaused(true);
  const auto client = InferenceClient::Create(server.address());
  const auto a = client->Generate(Prompt("a", 1), absl::Seconds(20));
  const auto b = client->Generate(Prompt("b", 1), absl::Seconds(20));
  ASSERT_TRUE(Eventually([&] { return server.engine().live() == 2; }));
  const CallResult refused = Generate(*client, Prompt("c", 1)).result;
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.reason, "TOO_MANY_REQUESTS");
  EXPECT_TRUE(refused.retry_delay.has_value());
  EXPECT_EQ(encoded, 2);
  server.engine().SetPaused(false);
  EXPECT_TRUE(ReadAll(*a).result.ok());
  EXPECT_TRUE(ReadAll(*b).result.ok());
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
  EXPECT_TRUE(Generate(*client, Prompt("d", 1)).result.ok());
}

TEST(InferenceServiceTest, ADeadlineEndsAQueuedRequest) {
  TestServer server;
  server.engine().SetPaused(true);
  const auto client = InferenceClient::Create(server.address());
  const Generated all = Generate(*client, Prompt("a", 5), absl::Milliseconds(100));
  EXPECT_EQ(all.result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return server.engine().live() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server.ended(Outcome::kDeadline) == 1; }));
  EXPECT_EQ(server.engine().ended(FinishReason::kDeadline), 1);
}

TEST(InferenceServiceTest, NoWorkForACallThatEndedBeforeItsTurn) {
  absl::Notification release;
  std::atomic<int> encoded{0};
  TestServer server({.on_encode = [&] {
    ++encoded;
    release.WaitForNotification();
  }});
  const auto client = InferenceClient::Create(server.address());
  const auto first = client->Generate(Prompt("a", 1), absl::Seconds(20));
  ASSERT_TRUE(Eventually([&] { return encoded == 1; }));
  EXPECT_EQ(Generate(*client, Prompt("b", 1), absl::Milliseconds(50)).result.status.code(),
            absl::StatusCode::kDeadlineExceeded);
  const auto third = client->Generate(Prompt("c", 1), absl::Seconds(20));
  ASSERT_TRUE(Eventually([&] { return server.service().inflight() == 2; }));
  third->Cancel();
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 1; }));
  release.Notify();
  EXPECT_TRUE(ReadAll(*first).result.ok());
  EXPECT_EQ(encoded, 1);
  EXPECT_EQ(server.engine().accepted().size(), 1u);
}

TEST(InferenceServiceTest, ACancelFreesTheEngine) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  const auto stream = client->Generate(Prompt("a", 1'000'000), absl::InfiniteDuration());
  v1::GenerateResponse message;
  ASSERT_TRUE(stream->Next(&message));
  stream->Cancel();
  EXPECT_EQ(ReadAll(*stream).result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return server.engine().live() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
  EXPECT_EQ(server.ended(Outcome::kCancelled), 1);
  EXPECT_EQ(server.engine().ended(FinishReason::kCancelled), 1);
}

TEST(InferenceServiceTest, ALostRankEndsItsStreamsAndRefusesNewOnes) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  const auto stream = client->Generate(Prompt("a", 1'000'000), absl::Seconds(20));
  v1::GenerateResponse message;
  ASSERT_TRUE(stream->Next(&message));
  server.engine().Lose();
  CallResult result = ReadAll(*stream).result;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.reason, "UNAVAILABLE");
  result = Generate(*client, Prompt("b", 1)).result;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.reason, "NO_RANK_UP");
  EXPECT_TRUE(result.retry_delay.has_value());
}

TEST(InferenceServiceTest, InternalFailuresTellNoSecrets) {
  TestServer server({.engines = {{.last_reason = FinishReason::kFailed}}});
  const auto client = InferenceClient::Create(server.address());
  const Generated all = Generate(*client, Prompt("a", 2));
  EXPECT_EQ(all.text, "t0 t1 ");
  EXPECT_EQ(all.finished_count, 0);
  EXPECT_EQ(all.result.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(all.result.status.message()), testing::Not(HasSubstr("secret")));
}

TEST(InferenceServiceTest, ASlowReaderLosesItsCall) {
  TestServer server(
      {.engines = {{.tick = absl::ZeroDuration()}},
       .service = {.slow_reader_timeout = absl::Milliseconds(100), .log_requests = false}});
  const auto client = InferenceClient::Create(server.address());
  const auto stream = client->Generate(Prompt("a", 2'000'000'000), absl::InfiniteDuration());
  EXPECT_TRUE(Eventually([&] { return server.ended(Outcome::kSlowReader) == 1; }));
  EXPECT_TRUE(Eventually([&] { return server.engine().live() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
  EXPECT_EQ(ReadAll(*stream).result.status.code(), absl::StatusCode::kCancelled);
}

TEST(InferenceServiceTest, TokenizeDetokenizeAndGetModel) {
  TestServer server;
  const auto client = InferenceClient::Create(server.address());
  v1::TokenizeRequest tokenize;
  tokenize.set_text("ab");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(client->Tokenize(tokenize, absl::Seconds(5), &tokens).ok());
  EXPECT_THAT(tokens.token_ids(), testing::ElementsAre('a', 'b'));

  v1::DetokenizeRequest detokenize;
  *detokenize.mutable_token_ids() = tokens.token_ids();
  detokenize.add_token_ids(FakeTokenizer::kEos);
  v1::DetokenizeResponse text;
  ASSERT_TRUE(client->Detokenize(detokenize, absl::Seconds(5), &text).ok());
  EXPECT_EQ(text.text(), "ab");
  detokenize.set_keep_special_tokens(true);
  ASSERT_TRUE(client->Detokenize(detokenize, absl::Seconds(5), &text).ok());
  EXPECT_EQ(text.text(), "ab<eos>");
  detokenize.add_token_ids(-1);
  const CallResult bad = client->Detokenize(detokenize, absl::Seconds(5), &text);
  ASSERT_EQ(bad.field_violations.size(), 1u);
  EXPECT_EQ(bad.field_violations[0].first, "token_ids[3]");

  v1::GetModelResponse model;
  ASSERT_TRUE(client->GetModel(absl::Seconds(5), &model).ok());
  EXPECT_EQ(model.model(), "tiny");
  EXPECT_EQ(model.vocab_size(), FakeTokenizer::kSize);
  EXPECT_EQ(model.context_tokens(), 1024);
  EXPECT_THAT(model.eos_token_ids(), testing::ElementsAre(FakeTokenizer::kEos));
  EXPECT_EQ(model.default_max_tokens(), 256);
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
}

// Callers that cancel, run out of time, or stay, at random; in the end everything is given back.
TEST(InferenceServiceTest, AStormOfCancelsLeavesNothingBehind) {
  TestServer server({.engines = {{.name = "a", .max_live = 8}, {.name = "b", .max_live = 8}}});
  const auto client = InferenceClient::Create(server.address());
  constexpr int kThreads = 8;
  constexpr int kCalls = 60;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kCalls; ++i) {
        const auto deadline = random() % 4 == 0
                                  ? absl::Microseconds(random() % 5000) + absl::Milliseconds(1)
                                  : absl::Seconds(20);
        const auto stream =
            client->Generate(Prompt("abc", 1 + static_cast<int>(random() % 6)), deadline);
        const bool cancel = random() % 2 == 0;
        std::thread canceller([&, delay = absl::Microseconds(random() % 6000)] {
          if (!cancel) return;
          absl::SleepFor(delay);
          stream->Cancel();
        });
        const Generated all = ReadAll(*stream);
        // A cancel may overtake the status, but not the other way round.
        EXPECT_LE(all.finished_count, 1);
        EXPECT_TRUE(!all.result.ok() || all.finished_count == 1);
        const absl::StatusCode code = all.result.status.code();
        EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kResourceExhausted ||
                    (code == absl::StatusCode::kCancelled && cancel) ||
                    (code == absl::StatusCode::kDeadlineExceeded && deadline < absl::Seconds(1)))
            << all.result.status;
        canceller.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return server.service().inflight() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server.engine(0).live() + server.engine(1).live() == 0; }));
  int64_t ended = 0;
  for (const Counter& counter : server.stats().requests_ended) ended += counter.value();
  EXPECT_EQ(ended, server.stats().requests_received.value());
  EXPECT_EQ(server.ended(Outcome::kFailed), 0);
}

}  // namespace
}  // namespace rally
