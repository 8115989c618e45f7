#include "server/tokenize_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>

namespace rally {
namespace {

TEST(TokenizePoolTest, RunsEachJobOnce) {
  std::atomic<int> runs{0};
  {
    TokenizePool pool({.threads = 3, .max_queued_jobs = 1000});
    std::latch all(500);
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(pool.Submit(1,
                              [&](const absl::Status& status) {
                                EXPECT_TRUE(status.ok());
                                ++runs;
                                all.count_down();
                              })
                      .ok());
    }
    all.wait();
  }
  EXPECT_EQ(runs, 500);
}

// A pool whose one thread is held up until Release.
class HeldPoolTest : public testing::Test {
 protected:
  void Hold(TokenizePool& pool) {
    std::latch started(1);
    ASSERT_TRUE(pool.Submit(0,
                            [&](const absl::Status&) {
                              started.count_down();
                              release_.wait();
                            })
                    .ok());
    started.wait();
  }

  std::latch release_{1};
};

TEST_F(HeldPoolTest, RefusesBeyondTheJobsThatMayWait) {
  std::atomic<int> called{0};
  const auto job = [&](const absl::Status&) { ++called; };
  {
    TokenizePool pool({.threads = 1, .max_queued_jobs = 2});
    Hold(pool);
    EXPECT_TRUE(pool.Submit(1, job).ok());
    EXPECT_TRUE(pool.Submit(1, job).ok());
    EXPECT_TRUE(absl::IsResourceExhausted(pool.Submit(1, job)));
    release_.count_down();
  }
  EXPECT_EQ(called, 2);
}

TEST_F(HeldPoolTest, RefusesBeyondTheBytesThatMayWait) {
  const auto job = [](const absl::Status&) {};
  TokenizePool pool({.threads = 1, .max_queued_jobs = 100, .max_queued_bytes = 10});
  Hold(pool);
  EXPECT_TRUE(pool.Submit(11, job).ok()) << "an empty queue takes any job";
  EXPECT_TRUE(absl::IsResourceExhausted(pool.Submit(1, job)));
  release_.count_down();
}

TEST_F(HeldPoolTest, JobsThatWaitAtTheEndAreTold) {
  absl::Status told;
  auto owner = std::make_unique<TokenizePool>(TokenizePool::Limits{.threads = 1});
  TokenizePool* pool = owner.get();
  Hold(*pool);
  ASSERT_TRUE(pool->Submit(1, [&](const absl::Status& status) { told = status; }).ok());
  std::thread closer([&] { owner.reset(); });
  // The destructor has taken the queue once Submit says so; it waits for the held thread.
  while (!absl::IsUnavailable(pool->Submit(0, [](const absl::Status&) {}))) {
    std::this_thread::yield();
  }
  release_.count_down();
  closer.join();
  EXPECT_TRUE(absl::IsUnavailable(told));
}

}  // namespace
}  // namespace rally
