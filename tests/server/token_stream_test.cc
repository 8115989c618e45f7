#include "server/token_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "tests/testing/fake_engine.h"

namespace rally {
namespace {

// Checks the rules of a gRPC write reactor; a test says when a write is done.
class ScriptedWriter final : public StreamWriter {
 public:
  void Write(const v1::GenerateResponse* message) override {
    EXPECT_FALSE(ended.load()) << "a write after the end";
    {
      const std::lock_guard lock(mutex);
      messages.push_back(*message);
    }
    // From here on the write may be done, and more may happen, before this returns.
    EXPECT_FALSE(write_out.exchange(true)) << "two writes at once";
  }
  void End(const absl::Status& status) override {
    EXPECT_FALSE(write_out.load()) << "an end with a write out";
    EXPECT_FALSE(aborting.load()) << "an end during an abort";
    EXPECT_FALSE(ended.exchange(true)) << "two ends";
    end_status = status;
  }
  void Abort() override {
    aborting = true;
    ++aborts;
    if (during_abort) during_abort();
    aborting = false;
  }

  std::atomic<bool> write_out{false};
  std::atomic<bool> ended{false};
  std::atomic<bool> aborting{false};
  std::atomic<int> aborts{0};
  std::function<void()> during_abort;
  absl::Status end_status;
  std::mutex mutex;
  std::vector<v1::GenerateResponse> messages;
};

class TokenStreamTest : public testing::Test {
 protected:
  void Delta(int32_t id, std::string_view text) { stream_->OnDelta({&id, 1}, text); }
  void WriteDone(bool ok = true) {
    writer_.write_out = false;
    stream_->OnWriteDone(ok);
  }
  void Finish(FinishReason reason, absl::Status status = absl::OkStatus()) {
    rally::Finish finish;
    finish.reason = reason;
    finish.status = std::move(status);
    finish.stop_string_index = 1;
    finish.prompt_tokens = 3;
    finish.completion_tokens = 4;
    finish.seed = 99;
    stream_->OnFinish(finish);
  }
  int64_t Ended(Outcome outcome) {
    return stats_.requests_ended[static_cast<size_t>(outcome)].value();
  }
  int64_t EndedInAll() {
    int64_t sum = 0;
    for (const Counter& counter : stats_.requests_ended) sum += counter.value();
    return sum;
  }

  ServerStats stats_;
  ScriptedWriter writer_;
  std::shared_ptr<TokenStream> stream_ = std::make_shared<TokenStream>(&writer_, &stats_);
};

TEST_F(TokenStreamTest, TokensMergeWhileAWriteIsOut) {
  Delta(1, "a");
  ASSERT_EQ(writer_.messages.size(), 1u);
  Delta(2, "b");
  Delta(3, "");
  Delta(4, "cd");
  EXPECT_EQ(writer_.messages.size(), 1u);
  WriteDone();
  ASSERT_EQ(writer_.messages.size(), 2u);
  EXPECT_EQ(writer_.messages[0].delta().text(), "a");
  EXPECT_EQ(writer_.messages[1].delta().text(), "bcd");
  EXPECT_EQ(writer_.messages[1].delta().token_ids_size(), 3);
  WriteDone();
  EXPECT_EQ(writer_.messages.size(), 2u);
  EXPECT_FALSE(writer_.ended);
}

TEST_F(TokenStreamTest, FinishedComesLastAndOnce) {
  stream_->Describe("me", {"x", "STOP"}, MonotonicClock::Get().Now(), absl::InfiniteFuture());
  Delta(1, "a");
  Delta(2, "b");
  Finish(FinishReason::kStopString);
  WriteDone();  // "a" is out, "b" follows
  EXPECT_EQ(writer_.messages.back().delta().text(), "b");
  WriteDone();
  ASSERT_TRUE(writer_.messages.back().has_finished());
  EXPECT_FALSE(writer_.ended);
  WriteDone();
  EXPECT_TRUE(writer_.ended);
  EXPECT_TRUE(writer_.end_status.ok());
  const v1::Finished& finished = writer_.messages.back().finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(finished.stop_string(), "STOP");
  EXPECT_EQ(finished.request_id(), "me");
  EXPECT_EQ(finished.usage().completion_tokens(), 4);
  EXPECT_EQ(finished.seed(), 99u);
  EXPECT_EQ(Ended(Outcome::kStopString), 1);
  stream_->OnCancel();
  Delta(3, "late");
  EXPECT_EQ(writer_.messages.size(), 3u);
  EXPECT_EQ(EndedInAll(), 1);
}

TEST_F(TokenStreamTest, AFailedRequestSendsItsTextThenItsStatus) {
  Delta(1, "a");
  Delta(2, "b");
  Finish(FinishReason::kFailed, absl::UnavailableError("rank lost"));
  WriteDone();
  EXPECT_EQ(writer_.messages.back().delta().text(), "b");
  WriteDone();
  EXPECT_EQ(writer_.messages.size(), 2u);
  EXPECT_TRUE(absl::IsUnavailable(writer_.end_status));
  EXPECT_EQ(Ended(Outcome::kFailed), 1);
}

TEST_F(TokenStreamTest, AFailureWithoutAReasonIsStillAnError) {
  Finish(FinishReason::kFailed);
  EXPECT_TRUE(absl::IsInternal(writer_.end_status));
}

TEST_F(TokenStreamTest, ARejectionEndsAtOnce) {
  stream_->Reject(absl::InvalidArgumentError("no"));
  EXPECT_TRUE(writer_.ended);
  EXPECT_TRUE(writer_.messages.empty());
  EXPECT_EQ(Ended(Outcome::kRejectedInvalid), 1);
}

TEST_F(TokenStreamTest, ACancelWaitsForTheWriteThatIsOut) {
  Delta(1, "a");
  Delta(2, "b");
  stream_->OnCancel();
  EXPECT_FALSE(writer_.ended);
  WriteDone(false);
  EXPECT_TRUE(writer_.ended);
  EXPECT_EQ(writer_.messages.size(), 1u) << "what a caller no longer wants is not written";
  EXPECT_EQ(Ended(Outcome::kCancelled), 1);
}

TEST_F(TokenStreamTest, AFailedWriteIsACancel) {
  FakeEngine engine({});
  engine.SetPaused(true);
  const auto key = engine.Submit(RequestSpec(), stream_);
  stream_->Accepted({&engine, *key});
  Delta(1, "a");
  WriteDone(false);
  EXPECT_TRUE(writer_.ended);
  while (engine.live() > 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(engine.ended(FinishReason::kCancelled), 1);
  EXPECT_EQ(EndedInAll(), 1);
}

TEST_F(TokenStreamTest, ACancelBeforeAcceptanceReachesTheEngine) {
  FakeEngine engine({});
  engine.SetPaused(true);
  stream_->OnCancel();
  EXPECT_TRUE(writer_.ended);
  const auto key = engine.Submit(RequestSpec(), stream_);
  stream_->Accepted({&engine, *key});
  while (engine.live() > 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(EndedInAll(), 1);
}

TEST_F(TokenStreamTest, ACancelAtTheDeadlineIsTheDeadline) {
  const absl::Time now = MonotonicClock::Get().Now();
  stream_->Describe("", {}, now - absl::Seconds(10), now + absl::Milliseconds(100));
  stream_->OnCancel();
  EXPECT_EQ(Ended(Outcome::kDeadline), 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(writer_.end_status));
}

TEST_F(TokenStreamTest, ACancelLongBeforeTheDeadlineIsACancel) {
  const absl::Time now = MonotonicClock::Get().Now();
  stream_->Describe("", {}, now, now + absl::Seconds(10));
  stream_->OnCancel();
  EXPECT_EQ(Ended(Outcome::kCancelled), 1);
}

TEST_F(TokenStreamTest, ASlowReaderIsAbortedOnce) {
  Delta(1, "a");
  stream_->AbortIfStalledSince(MonotonicClock::Get().Now() - absl::Hours(1));
  EXPECT_EQ(writer_.aborts, 0);
  stream_->AbortIfStalledSince(MonotonicClock::Get().Now());
  stream_->AbortIfStalledSince(MonotonicClock::Get().Now());
  EXPECT_EQ(writer_.aborts, 1);
  EXPECT_FALSE(writer_.ended);
  stream_->OnCancel();
  WriteDone(false);
  EXPECT_TRUE(writer_.ended);
  EXPECT_EQ(Ended(Outcome::kSlowReader), 1);
  EXPECT_EQ(EndedInAll(), 1);
}

TEST_F(TokenStreamTest, TheWriterOutlivesAnAbort) {
  Delta(1, "a");
  writer_.during_abort = [this] { WriteDone(false); };  // End now would delete the writer
  stream_->AbortIfStalledSince(MonotonicClock::Get().Now());
  EXPECT_TRUE(writer_.ended);
}

// Engine, network, caller and watch at once, in every order that the scheduler comes up with. The
// scripted writer checks the rules.
TEST_F(TokenStreamTest, RacesEndEachStreamOnce) {
  constexpr int kIterations = 3000;
  constexpr int kTokens = 6;
  for (int i = 0; i < kIterations; ++i) {
    ServerStats stats;
    ScriptedWriter writer;
    auto stream = std::make_shared<TokenStream>(&writer, &stats);
    std::atomic<int> go{0};
    const auto start_together = [&go] {
      ++go;
      while (go.load() < 3) std::this_thread::yield();
    };
    std::thread engine([&, sink = std::shared_ptr<TokenSink>(stream)] {
      start_together();
      for (int32_t t = 0; t < kTokens; ++t) sink->OnDelta({&t, 1}, "x");
      rally::Finish finish;
      finish.reason = FinishReason::kLength;
      sink->OnFinish(finish);
    });
    std::thread network([&] {
      start_together();
      while (!writer.ended.load()) {
        if (writer.write_out.exchange(false)) stream->OnWriteDone(true);
      }
    });
    std::thread caller([&] {
      start_together();
      for (int spin = 0; spin < (i * 7) % 400; ++spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      if (i % 3 == 0) stream->AbortIfStalledSince(MonotonicClock::Get().Now());
      stream->OnCancel();
    });
    engine.join();
    network.join();
    caller.join();
    int64_t ended = 0;
    for (const Counter& counter : stats.requests_ended) ended += counter.value();
    ASSERT_EQ(ended, 1) << i;
    int finished = 0;
    for (const auto& message : writer.messages) finished += message.has_finished();
    ASSERT_EQ(finished == 1, writer.end_status.ok()) << i;
  }
}

}  // namespace
}  // namespace rally
