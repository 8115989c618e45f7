// The ping-pong loop.
//
//   read inbox -> Schedule -> Commit -> Launch step i+1 -> join step i -> Resolve -> Apply
//
// Step i+1 is launched before the host has seen what step i sampled: everything that it needs is on
// the device. The host then reads step i while the device computes step i+1. The synchronous loop
// is the same loop with one step in flight, and gives the same tokens (rule 12).
// Engine thread only.
#ifndef RALLY_ENGINE_STEP_PIPELINE_H_
#define RALLY_ENGINE_STEP_PIPELINE_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/admission.h"
#include "engine/base/clock.h"
#include "engine/executor.h"
#include "engine/idle_accounting.h"
#include "engine/scheduler.h"
#include "engine/sequence_table.h"

namespace rally {

// Sees every step as it is launched and as it is joined: traces, benchmarks and tests. Called on
// the engine thread between two steps, so it must be quick.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void OnLaunch(const StepPlan& plan) {}
  virtual void OnJoin(const StepPlan& plan, const OutcomeHeader& outcome) {}
};

class StepPipeline {
 public:
  struct Parts {
    Admission* admission = nullptr;
    Executor* executor = nullptr;
    Emitter* emitter = nullptr;
    EngineStats* stats = nullptr;
    SchedulerState* state = nullptr;
    SequenceTable* sequences = nullptr;
    const Vocabulary* vocabulary = nullptr;
    const Clock* clock = nullptr;
    const Device* device = nullptr;
    StepObserver* observer = nullptr;  // may be null
  };

  StepPipeline(const Parts& parts, const SchedulerLimits& limits, int32_t steps_in_flight,
               absl::Duration step_timeout);

  // One turn of the loop. False when there is nothing to do until the inbox has something. An
  // error is final: the rank is lost; FailAll ends what it had.
  absl::StatusOr<bool> Turn();
  void FailAll(const absl::Status& status);

 private:
  struct PlannedStep {
    StepPlan plan;
    int64_t runnable_since_ns = 0;
  };

  void ReadInbox();
  void EndCancelled(const CancelMessage& message, absl::Time now);
  bool LaunchNext();
  void GrowPool(int32_t wanted);
  absl::Status JoinOldest();
  void PublishGauges();
  PlannedStep& PlanOf(uint64_t step) { return plans_[step % kStepRing]; }

  const Parts parts_;
  SchedulerLimits limits_;
  const uint64_t steps_in_flight_;
  const absl::Duration step_timeout_;
  IdleAccounting idle_;
  InboxBatch inbox_;
  StepEffects effects_;
  std::array<PlannedStep, kStepRing> plans_;
  bool starved_ = true;            // the last turn found nothing to launch
  int64_t runnable_since_ns_ = 0;  // device clock: when the work of the next step was there
};

}  // namespace rally

#endif  // RALLY_ENGINE_STEP_PIPELINE_H_
