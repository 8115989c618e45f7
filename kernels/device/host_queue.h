// The queues behind the host device: one a stream, run by one worker thread or by one each.
//
// A point in a stream's order is (queue, number of entries before it); it has passed once the queue
// has completed that many. So recording an event needs no entry of its own, and a wait that was
// enqueued before the event is recorded again keeps the point that it was given.
#ifndef RALLY_KERNELS_DEVICE_HOST_QUEUE_H_
#define RALLY_KERNELS_DEVICE_HOST_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/device/host_stream.h"

namespace rally {

class HostQueue;

struct HostPoint {
  std::shared_ptr<HostQueue> queue;  // null: a point that has always passed
  uint64_t position = 0;
};

using HostOpList = std::vector<HostOp>;

struct HostEntry {
  enum class Kind { kOp, kWait, kGraph };
  Kind kind = Kind::kOp;
  uint64_t ticket = 0;                           // order of enqueueing over all queues
  HostOp op = {};                                // kOp
  HostPoint point = {};                          // kWait
  std::shared_ptr<const HostOpList> graph = {};  // kGraph
};

// A ring that doubles when it is full, so that a steady load allocates nothing. Guarded by the
// mutex of its HostQueues.
class HostQueue {
 public:
  HostQueue() : ring_(kInitialEntries) {}

  bool empty() const { return begun_ == enqueued_; }
  const HostEntry& front() const { return ring_[begun_ % ring_.size()]; }
  void Push(HostEntry entry);
  HostEntry Pop() { return std::move(ring_[begun_++ % ring_.size()]); }

  uint64_t enqueued() const { return enqueued_; }
  uint64_t completed() const { return completed_; }
  void Complete() { ++completed_; }

 private:
  static constexpr size_t kInitialEntries = 64;
  std::vector<HostEntry> ring_;
  uint64_t enqueued_ = 0;
  uint64_t begun_ = 0;
  uint64_t completed_ = 0;
};

// All queues of one device and the threads that run them. Every method may be called from any
// thread. Uses std::mutex, which ThreadSanitizer understands, not the prebuilt absl::Mutex.
class HostQueues {
 public:
  // `threads`: OpenMP threads of a worker.
  HostQueues(std::string name, int threads, bool worker_per_stream);
  ~HostQueues() { Stop(); }

  std::shared_ptr<HostQueue> Open();
  // Waits for what is queued, then forgets the queue.
  void Close(const std::shared_ptr<HostQueue>& queue);

  void Enqueue(HostQueue& queue, HostEntry entry);
  HostPoint Now(const std::shared_ptr<HostQueue>& queue) const;
  bool HasPassed(const HostPoint& point) const;
  // OK once the point has passed, DEADLINE_EXCEEDED at the deadline.
  absl::Status SyncUntil(const HostPoint& point, absl::Time deadline) const;

  // The first error sticks. From then on entries complete without running.
  void Fail(absl::Status error);
  absl::Status status() const;

  // What is queued completes without running; joins the threads.
  void Stop();

 private:
  void Work(HostQueue* only);
  HostQueue* NextRunnable(HostQueue* only) const;
  bool HasPassedLocked(const HostPoint& point) const;
  absl::Status Run(const HostEntry& entry) const;

  const std::string name_;
  const int threads_;
  const bool worker_per_stream_;
  mutable std::mutex mu_;
  std::condition_variable work_;              // an entry was enqueued or a wait may have ended
  mutable std::condition_variable progress_;  // a point that somebody waits for has passed
  mutable std::vector<const HostPoint*> awaited_;
  std::vector<std::shared_ptr<HostQueue>> queues_;
  std::vector<std::thread> workers_;
  uint64_t next_ticket_ = 0;
  bool stopping_ = false;
  absl::Status error_;
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_HOST_QUEUE_H_
