#include "server/tokenize_pool.h"

#include <utility>

#include "server/error_details.h"

namespace rally {
namespace {

absl::Status ShuttingDown() {
  return ErrorWithReason(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server shuts down");
}

}  // namespace

TokenizePool::TokenizePool(const Limits& limits) : limits_(limits) {
  for (int i = 0; i < limits_.threads; ++i) threads_.emplace_back([this] { Work(); });
}

TokenizePool::~TokenizePool() {
  std::deque<Entry> left;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    left.swap(queue_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (Entry& entry : left) entry.job(ShuttingDown());
}

absl::Status TokenizePool::Submit(int64_t bytes, Job job) {
  const std::lock_guard lock(mutex_);
  if (closing_) return ShuttingDown();
  // An idle pool takes any job, so that no single text is too long for ever.
  const bool full = static_cast<int64_t>(queue_.size()) >= limits_.max_queued_jobs ||
                    bytes > limits_.max_queued_bytes - queued_bytes_;
  if (full && !queue_.empty()) {
    return RetryableError(absl::StatusCode::kResourceExhausted, "TOKENIZE_QUEUE_FULL",
                          "too many prompts wait to be tokenized", absl::Milliseconds(200));
  }
  queued_bytes_ += bytes;
  queue_.push_back({bytes, std::move(job)});
  wake_.notify_one();
  return absl::OkStatus();
}

void TokenizePool::Work() {
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (closing_) return;
      entry = std::move(queue_.front());
      queue_.pop_front();
      queued_bytes_ -= entry.bytes;
    }
    entry.job(absl::OkStatus());
  }
}

}  // namespace rally
