#include "tests/bench/decode/step_trace.h"

#include <thread>

namespace rally {

// Appending must not allocate between two steps.
StepTrace::StepTrace() { steps_.reserve(1 << 20); }

void StepTrace::OnLaunch(const StepPlan&) { launched_.fetch_add(1, std::memory_order_relaxed); }

void StepTrace::OnJoin(const StepPlan& plan, const OutcomeHeader& outcome) {
  TracedStep& traced = steps_.emplace_back();
  traced.step = plan.step;
  traced.start_ns = outcome.start_ns;
  traced.end_ns = outcome.end_ns;
  traced.rows = static_cast<int32_t>(plan.rows.size());
  traced.tokens = plan.token_count;
  traced.samples = plan.sample_count;
  for (const PlanRow& row : plan.rows) traced.context_sum += row.first_position + row.token_count;
  joined_.fetch_add(1, std::memory_order_release);
}

std::span<const TracedStep> StepTrace::Steps() const {
  while (joined_.load(std::memory_order_acquire) != launched_.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  return steps_;
}

}  // namespace rally
