// The steps of an engine as its device stamped them.
#ifndef RALLY_TESTS_BENCH_DECODE_STEP_TRACE_H_
#define RALLY_TESTS_BENCH_DECODE_STEP_TRACE_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step_pipeline.h"

namespace rally {

struct TracedStep {
  uint64_t step = 0;
  int64_t start_ns = 0;  // device clock
  int64_t end_ns = 0;
  int32_t rows = 0;
  int32_t tokens = 0;
  int32_t samples = 0;
  int64_t context_sum = 0;  // positions that the rows attend to, their own tokens included
};

class StepTrace final : public StepObserver {
 public:
  StepTrace();

  void OnLaunch(const StepPlan& plan) override;
  void OnJoin(const StepPlan& plan, const OutcomeHeader& outcome) override;

  // The two below: while no request is running.
  void Clear() { steps_.clear(); }
  // Waits for the last join, which comes after the last token has reached its sink.
  std::span<const TracedStep> Steps() const;

 private:
  std::atomic<uint64_t> launched_{0};
  std::atomic<uint64_t> joined_{0};  // released after the step is written
  std::vector<TracedStep> steps_;
};

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_STEP_TRACE_H_
