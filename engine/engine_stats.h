// What an engine counts. One writer a value (the engine thread, or the emitters where it says so),
// any number of readers, no locks: a scrape never makes the engine wait.
#ifndef RALLY_ENGINE_ENGINE_STATS_H_
#define RALLY_ENGINE_ENGINE_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace rally {

class Counter {
 public:
  void Add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

class Gauge {
 public:
  void Set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Cumulative-ready histogram of durations: bucket i counts observations <= bounds[i] seconds, the
// last bucket the rest.
class DurationHistogram {
 public:
  explicit DurationHistogram(std::span<const double> bounds_s)
      : bounds_s_(bounds_s.begin(), bounds_s.end()), buckets_(bounds_s.size() + 1) {}

  void ObserveNanos(int64_t ns) {
    if (ns < 0) return;  // a clock that stepped back must not lower a sum
    const double s = static_cast<double>(ns) * 1e-9;
    size_t i = 0;
    while (i < bounds_s_.size() && s > bounds_s_[i]) ++i;
    buckets_[i].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  const std::vector<double>& bounds_s() const { return bounds_s_; }
  int64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  size_t bucket_count() const { return buckets_.size(); }
  double sum_s() const {
    return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }

 private:
  std::vector<double> bounds_s_;
  std::vector<std::atomic<int64_t>> buckets_;
  std::atomic<int64_t> sum_ns_{0};
};

inline constexpr double kStepBoundsS[] = {
    20e-6, 50e-6, 100e-6, 200e-6, 350e-6, 500e-6, 750e-6, 1e-3, 2e-3, 3.5e-3, 5e-3, 7.5e-3, 10e-3,
    15e-3, 20e-3, 35e-3,  50e-3,  75e-3,  0.1,    0.2,    0.5,  1,    2,      5,    10,     60};
inline constexpr double kIdleBoundsS[] = {0.25e-6, 0.5e-6, 1e-6,   2e-6,   3e-6,   5e-6, 10e-6,
                                          20e-6,   50e-6,  100e-6, 200e-6, 500e-6, 1e-3, 2e-3,
                                          5e-3,    10e-3,  50e-3,  0.1,    1};
inline constexpr double kLatencyBoundsS[] = {
    0.1e-3, 0.2e-3, 0.5e-3, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 40e-3, 60e-3, 80e-3, 0.1, 0.25,
    0.5,    0.75,   1,      2.5,  5,    7.5,  10,    20,    40,    80,    160,   640};

// Outcomes of accepted requests, by FinishReason; the sum equals requests_accepted once all ended.
inline constexpr size_t kFinishReasonCount = 7;

struct EngineStats {
  Counter requests_accepted;                               // any thread
  std::array<Counter, kFinishReasonCount> requests_ended;  // by FinishReason
  Gauge queued_requests;
  Gauge running_requests;
  Gauge kv_blocks_total;
  Gauge kv_blocks_free;
  Gauge kv_blocks_held;
  Gauge kv_blocks_cached;
  Gauge kv_blocks_releasing;
  Counter kv_pool_growths;   // of a growing pool, each at an admission
  Counter kv_pool_refusals;  // growths for which the device had no memory
  Counter prompt_tokens;     // prefilled positions, recomputed ones included
  Counter generated_tokens;  // delivered to a request
  Counter surplus_rows;      // rows computed for a sequence that had ended
  Counter stale_outcomes;    // results dropped by their generation number
  Counter preemptions;
  Counter steps;
  Counter busy_ns;          // sum of step intervals, by device stamps
  Counter idle_bubble_ns;   // idle although work was runnable
  Counter idle_no_work_ns;  // idle because nothing was
  Gauge rank_up;
  Gauge timed_by_events;  // 1: the device clock ticks too coarsely for stamps
  DurationHistogram step_time{kStepBoundsS};
  DurationHistogram idle_bubble{kIdleBoundsS};  // one observation a gap between two steps
  DurationHistogram ttft{kLatencyBoundsS};
  DurationHistogram inter_token_latency{kStepBoundsS};
  DurationHistogram queue_time{kLatencyBoundsS};
  DurationHistogram request_time{kLatencyBoundsS};
};

}  // namespace rally

#endif  // RALLY_ENGINE_ENGINE_STATS_H_
