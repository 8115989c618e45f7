// A bounded pool of threads for text to ids, so that a long prompt never holds up a gRPC thread.
#ifndef RALLY_SERVER_TOKENIZE_POOL_H_
#define RALLY_SERVER_TOKENIZE_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace rally {

class TokenizePool {
 public:
  struct Limits {
    int threads = 1;
    int64_t max_queued_jobs = 256;
    int64_t max_queued_bytes = int64_t{64} << 20;
  };
  // Called once, with OK on a thread of the pool, or with UNAVAILABLE by the destructor. It looks
  // itself whether its caller is still there: a job cannot be taken back.
  using Job = std::function<void(const absl::Status&)>;

  explicit TokenizePool(const Limits& limits);
  // Running jobs end; waiting ones get UNAVAILABLE.
  ~TokenizePool();
  TokenizePool(const TokenizePool&) = delete;
  TokenizePool& operator=(const TokenizePool&) = delete;

  // `bytes` is what the job will read. RESOURCE_EXHAUSTED: the queue is full, the job is not
  // called.
  absl::Status Submit(int64_t bytes, Job job);

 private:
  struct Entry {
    int64_t bytes;
    Job job;
  };

  void Work();

  const Limits limits_;
  std::mutex mutex_;  // guards what follows but for the threads
  std::condition_variable wake_;
  std::deque<Entry> queue_;
  int64_t queued_bytes_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rally

#endif  // RALLY_SERVER_TOKENIZE_POOL_H_
