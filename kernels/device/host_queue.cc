#include "kernels/device/host_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/host/parallel.h"

namespace rally {

void HostQueue::Push(HostEntry entry) {
  if (enqueued_ - begun_ == ring_.size()) {
    std::vector<HostEntry> larger(ring_.size() * 2);
    for (uint64_t i = begun_; i < enqueued_; ++i) {
      larger[i % larger.size()] = std::move(ring_[i % ring_.size()]);
    }
    ring_ = std::move(larger);
  }
  ring_[enqueued_++ % ring_.size()] = std::move(entry);
}

HostQueues::HostQueues(std::string name, int threads, bool worker_per_stream)
    : name_(std::move(name)), threads_(threads), worker_per_stream_(worker_per_stream) {
  if (!worker_per_stream_) workers_.emplace_back([this] { Work(nullptr); });
}

void HostQueues::Stop() {
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) {
    if (worker.joinable()) worker.join();
  }
}

std::shared_ptr<HostQueue> HostQueues::Open() {
  auto queue = std::make_shared<HostQueue>();
  std::lock_guard lock(mu_);
  queues_.push_back(queue);
  // The thread ends with the device; a closed queue only leaves it idle.
  if (worker_per_stream_) workers_.emplace_back([this, queue] { Work(queue.get()); });
  return queue;
}

void HostQueues::Close(const std::shared_ptr<HostQueue>& queue) {
  SyncUntil(Now(queue), absl::InfiniteFuture()).IgnoreError();
  std::lock_guard lock(mu_);
  std::erase(queues_, queue);
}

void HostQueues::Enqueue(HostQueue& queue, HostEntry entry) {
  {
    std::lock_guard lock(mu_);
    entry.ticket = next_ticket_++;
    queue.Push(std::move(entry));
  }
  work_.notify_all();
}

HostPoint HostQueues::Now(const std::shared_ptr<HostQueue>& queue) const {
  std::lock_guard lock(mu_);
  return {queue, queue->enqueued()};
}

bool HostQueues::HasPassed(const HostPoint& point) const {
  std::lock_guard lock(mu_);
  return HasPassedLocked(point);
}

absl::Status HostQueues::SyncUntil(const HostPoint& point, absl::Time deadline) const {
  // Waking the waiter for every entry that ends would take the core from the worker each time.
  std::unique_lock lock(mu_);
  awaited_.push_back(&point);
  const auto passed = [&] { return HasPassedLocked(point); };
  const auto left = std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(24 * 365));
  const bool in_time = progress_.wait_for(lock, absl::ToChronoNanoseconds(left), passed);
  std::erase(awaited_, &point);
  if (in_time) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(name_, ": work has not ended before its deadline"));
}

void HostQueues::Fail(absl::Status error) {
  std::lock_guard lock(mu_);
  if (error_.ok()) error_ = std::move(error);
}

absl::Status HostQueues::status() const {
  std::lock_guard lock(mu_);
  return error_;
}

void HostQueues::Work(HostQueue* only) {
  SetParallelThreads(threads_);
  std::unique_lock lock(mu_);
  while (true) {
    HostQueue* queue = NextRunnable(only);
    if (queue == nullptr) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    const HostEntry entry = queue->Pop();
    const bool skip = stopping_ || !error_.ok();
    lock.unlock();
    absl::Status status = skip ? absl::OkStatus() : Run(entry);
    lock.lock();
    if (!status.ok() && error_.ok()) error_ = std::move(status);
    queue->Complete();
    const auto passed = [&](const HostPoint* point) { return HasPassedLocked(*point); };
    if (std::any_of(awaited_.begin(), awaited_.end(), passed)) progress_.notify_all();
    if (worker_per_stream_) work_.notify_all();
  }
}

// The oldest entry that may run, so that several streams share a worker in the order of enqueueing.
HostQueue* HostQueues::NextRunnable(HostQueue* only) const {
  HostQueue* best = nullptr;
  for (const auto& queue : queues_) {
    if ((only != nullptr && queue.get() != only) || queue->empty()) continue;
    const HostEntry& entry = queue->front();
    if (entry.kind == HostEntry::Kind::kWait && !HasPassedLocked(entry.point)) continue;
    if (best == nullptr || entry.ticket < best->front().ticket) best = queue.get();
  }
  return best;
}

bool HostQueues::HasPassedLocked(const HostPoint& point) const {
  return point.queue == nullptr || point.queue->completed() >= point.position;
}

absl::Status HostQueues::Run(const HostEntry& entry) const {
  switch (entry.kind) {
    case HostEntry::Kind::kOp:
      return entry.op.Run();
    case HostEntry::Kind::kWait:
      return absl::OkStatus();
    case HostEntry::Kind::kGraph:
      for (const HostOp& op : *entry.graph) {
        if (absl::Status status = op.Run(); !status.ok()) return status;
      }
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace rally
