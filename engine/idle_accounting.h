// How long the device stood idle between two steps, and why.
//
// The gap from the end of step i to the start of step i+1 is split (design, section 5):
//   bubble   from max(end(i), arrival of the first runnable work) to start(i+1): work was there and
//            the device waited for the host
//   no work  the rest of the gap
// All times are nanoseconds of the device clock; differences are taken as integers.
#ifndef RALLY_ENGINE_IDLE_ACCOUNTING_H_
#define RALLY_ENGINE_IDLE_ACCOUNTING_H_

#include <algorithm>
#include <cstdint>

#include "engine/engine_stats.h"

namespace rally {

class IdleAccounting {
 public:
  explicit IdleAccounting(EngineStats* stats) : stats_(stats) {}

  // Steps in order. `runnable_since_ns` is when the work of this step was first there; steps that
  // follow from the one before pass its launch, which is older than any end.
  void OnStep(int64_t start_ns, int64_t end_ns, int64_t runnable_since_ns) {
    stats_->steps.Add();
    stats_->step_time.ObserveNanos(end_ns - start_ns);
    stats_->busy_ns.Add(std::max<int64_t>(0, end_ns - start_ns));
    if (has_last_) {
      const int64_t gap = std::max<int64_t>(0, start_ns - last_end_ns_);
      const int64_t runnable = std::max(last_end_ns_, runnable_since_ns);
      const int64_t bubble = std::clamp<int64_t>(start_ns - runnable, 0, gap);
      stats_->idle_bubble.ObserveNanos(bubble);
      stats_->idle_bubble_ns.Add(bubble);
      stats_->idle_no_work_ns.Add(gap - bubble);
    }
    last_end_ns_ = end_ns;
    has_last_ = true;
  }

 private:
  EngineStats* const stats_;
  int64_t last_end_ns_ = 0;
  bool has_last_ = false;
};

}  // namespace rally

#endif  // RALLY_ENGINE_IDLE_ACCOUNTING_H_
