#include "engine/step_pipeline.h"

#include "engine/base/status_macros.h"

namespace rally {

StepPipeline::StepPipeline(const Parts& parts, const SchedulerLimits& limits,
                           int32_t steps_in_flight, absl::Duration step_timeout)
    : parts_(parts),
      limits_(limits),
      steps_in_flight_(steps_in_flight),
      step_timeout_(step_timeout),
      idle_(parts.stats) {
  for (PlannedStep& planned : plans_) planned.plan.Reserve(limits.max_rows);
  effects_.rows.reserve(limits.max_rows);
  PublishGauges();
}

absl::StatusOr<bool> StepPipeline::Turn() {
  ReadInbox();
  const bool progress = LaunchNext();
  const SchedulerState& state = *parts_.state;
  const uint64_t in_flight = state.launched_step - state.completed_step;
  const bool joins = in_flight == steps_in_flight_ || (in_flight > 0 && !progress);
  if (joins) RALLY_RETURN_IF_ERROR(JoinOldest());
  parts_.sequences->Sweep();
  parts_.emitter->Flush();
  PublishGauges();
  return progress || joins;
}

void StepPipeline::ReadInbox() {
  const absl::Time now = parts_.clock->Now();
  parts_.admission->Take(&inbox_);
  if (starved_ && parts_.state->waiting.empty() && !inbox_.submitted.empty()) {
    // The device had nothing to do until now: that gap is no work, not a bubble.
    // Asked anew each time, since the two clocks drift apart.
    const absl::Duration age = parts_.clock->Now() - inbox_.first_arrival;
    runnable_since_ns_ = parts_.device->ClockNanos() - absl::ToInt64Nanoseconds(age);
  }
  for (auto& sequence : inbox_.submitted) parts_.sequences->Add(std::move(sequence));
  for (const CancelMessage& message : inbox_.cancelled) EndCancelled(message, now);
  if (inbox_.abort_all) {
    parts_.sequences->EndAll(End{.reason = FinishReason::kFailed,
                                 .status = absl::UnavailableError("the server is shutting down")},
                             now);
  }
  parts_.sequences->ExpireDeadlines(now);
}

void StepPipeline::EndCancelled(const CancelMessage& message, absl::Time now) {
  Sequence* s = parts_.sequences->Find(message.key);
  if (s == nullptr) return;
  const bool late = message.reason == FinishReason::kDeadline;
  parts_.sequences->EndSequence(
      s,
      End{.reason = message.reason,
          .status = late ? absl::DeadlineExceededError("the request's deadline has passed")
                         : absl::CancelledError("the caller cancelled the request"),
          .final_bytes = s->text_bytes},
      now);
}

bool StepPipeline::LaunchNext() {
  PlannedStep& next = PlanOf(parts_.state->launched_step + 1);
  Schedule(*parts_.state, limits_, &next.plan);
  if (next.plan.pool_blocks > 0) {
    GrowPool(next.plan.pool_blocks);
    Schedule(*parts_.state, limits_, &next.plan);
  }
  starved_ = !next.plan.HasRows();
  if (!next.plan.HasEffects()) return false;
  Commit(&next.plan, parts_.state);
  if (Sequence* s = next.plan.rejected; s != nullptr) {
    parts_.sequences->EndSequence(
        s,
        End{.reason = FinishReason::kFailed,
            .status = absl::ResourceExhaustedError("the request does not fit the KV pool"),
            .final_bytes = s->text_bytes},
        parts_.clock->Now());
  }
  if (!next.plan.HasRows()) return true;
  next.runnable_since_ns = runnable_since_ns_;
  parts_.executor->Launch(next.plan);
  if (parts_.observer != nullptr) parts_.observer->OnLaunch(next.plan);
  parts_.sequences->OnPlanned(next.plan, parts_.clock->Now());
  return true;
}

// Where the device has too little memory left, the pool takes what it gets and grows no more.
void StepPipeline::GrowPool(int32_t wanted) {
  SchedulerState& state = *parts_.state;
  const int32_t had = state.blocks.total();
  int32_t blocks = wanted;
  while (blocks > had && !parts_.executor->GrowKvPool(blocks, state.launched_step + 1).ok()) {
    blocks = had + (blocks - had) / 2;
  }
  state.blocks.GrowTo(parts_.executor->kv_blocks());
  if (blocks > had) parts_.stats->kv_pool_growths.Add();
  if (blocks == wanted) return;
  parts_.stats->kv_pool_refusals.Add();
  limits_.max_blocks = state.blocks.total();
}

absl::Status StepPipeline::JoinOldest() {
  const uint64_t step = parts_.state->completed_step + 1;
  RALLY_ASSIGN_OR_RETURN(const StepOutcomeView outcome,
                         parts_.executor->Join(step, absl::Now() + step_timeout_));
  const PlannedStep& planned = PlanOf(step);
  Resolve(planned.plan, outcome, *parts_.vocabulary, &effects_);
  parts_.sequences->Apply(effects_, parts_.clock->Now());
  CompleteStep(step, parts_.state);
  idle_.OnStep(outcome.header->start_ns, outcome.header->end_ns, planned.runnable_since_ns);
  if (parts_.observer != nullptr) parts_.observer->OnJoin(planned.plan, *outcome.header);
  for (const PlanRow& row : planned.plan.rows) {
    if (row.prefill) parts_.stats->prompt_tokens.Add(row.token_count);
  }
  return absl::OkStatus();
}

void StepPipeline::FailAll(const absl::Status& status) {
  parts_.admission->Take(&inbox_);
  for (auto& sequence : inbox_.submitted) parts_.sequences->Add(std::move(sequence));
  parts_.sequences->EndAll(End{.reason = FinishReason::kFailed, .status = status},
                           parts_.clock->Now());
  parts_.emitter->Flush();
  PublishGauges();
}

void StepPipeline::PublishGauges() {
  const SchedulerState& state = *parts_.state;
  EngineStats& stats = *parts_.stats;
  stats.queued_requests.Set(static_cast<int64_t>(state.waiting.size()));
  stats.running_requests.Set(static_cast<int64_t>(state.running.size()));
  stats.kv_blocks_total.Set(state.blocks.total());
  stats.kv_blocks_free.Set(state.blocks.free());
  stats.kv_blocks_held.Set(state.blocks.held());
  stats.kv_blocks_releasing.Set(state.blocks.releasing());
  stats.preemptions.Add(state.preemptions - stats.preemptions.value());
}

}  // namespace rally
