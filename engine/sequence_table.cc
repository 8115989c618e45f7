#include "engine/sequence_table.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/plant.h"

namespace rally {

SequenceTable::SequenceTable(Admission* admission, EngineStats* stats, Emitter* emitter,
                             SchedulerState* state)
    : admission_(admission), stats_(stats), emitter_(emitter), state_(state) {}

void SequenceTable::Add(std::unique_ptr<Sequence> sequence) {
  Sequence* s = sequence.get();
  sequences_.emplace(s->key, std::move(sequence));
  state_->waiting.push_back(s);
}

Sequence* SequenceTable::Find(uint64_t key) const {
  const auto it = sequences_.find(key);
  return it == sequences_.end() ? nullptr : it->second.get();
}

void SequenceTable::OnPlanned(const StepPlan& plan, absl::Time now) {
  for (Sequence* s : plan.admitted) {
    LeaveQueue(s);
    if (s->first_planned != absl::InfiniteFuture()) continue;  // resumed after a preemption
    s->first_planned = now;
    stats_->queue_time.ObserveNanos(absl::ToInt64Nanoseconds(now - s->spec.arrival));
  }
}

void SequenceTable::Apply(const StepEffects& effects, absl::Time now) {
  for (const RowEffect& effect : effects.rows) {
    Sequence* s = effect.sequence;
    switch (effect.kind) {
      case RowEffect::Kind::kSurplus:
        stats_->surplus_rows.Add();
        if (RALLY_PLANT(SURPLUS_COUNTED)) stats_->generated_tokens.Add();
        break;
      case RowEffect::Kind::kStale:
        stats_->stale_outcomes.Add();
        break;
      case RowEffect::Kind::kPrefill:
      case RowEffect::Kind::kFailed:
        s->confirmed = effect.confirmed;
        break;
      case RowEffect::Kind::kToken:
        s->confirmed = effect.confirmed;
        ApplyToken(effect, now);
        break;
    }
    if (effect.end.has_value()) EndSequence(s, *effect.end, now);
  }
}

void SequenceTable::ApplyToken(const RowEffect& effect, absl::Time now) {
  Sequence* s = effect.sequence;
  const bool first = s->output_count() == 0;
  s->ids.push_back(effect.token);
  s->stop_state = effect.stop_state;
  s->text_bytes = effect.text_bytes;
  s->output->Append(effect.token, effect.sendable_bytes);
  emitter_->Notify(s->output);
  stats_->generated_tokens.Add();
  admission_->TokensDone(first ? s->prompt_count + 1 : 1);
  if (first) {
    s->first_token = now;
    stats_->ttft.ObserveNanos(absl::ToInt64Nanoseconds(now - s->spec.arrival));
  } else {
    stats_->inter_token_latency.ObserveNanos(absl::ToInt64Nanoseconds(now - s->last_token));
  }
  s->last_token = now;
}

void SequenceTable::EndSequence(Sequence* s, const End& end, absl::Time now) {
  RALLY_CHECK(s->state != SequenceState::kEnded);
  LeaveQueue(s);
  Retire(s, state_);
  s->output->End(MakeFinish(*s, end, now), end.final_bytes);
  emitter_->Notify(s->output);
  stats_->requests_ended[static_cast<size_t>(end.reason)].Add();
  stats_->request_time.ObserveNanos(absl::ToInt64Nanoseconds(now - s->spec.arrival));
  const int32_t outputs = s->output_count();
  admission_->TokensDone(s->output_limit - outputs + (outputs == 0 ? s->prompt_count : 0));
  admission_->LeftEngine();
  const auto it = sequences_.find(s->key);
  ended_.push_back(std::move(it->second));
  sequences_.erase(it);
}

void SequenceTable::EndAll(const End& end, absl::Time now) {
  scratch_.clear();
  for (const auto& entry : sequences_) scratch_.push_back(entry.second.get());
  for (Sequence* s : scratch_) {
    End own = end;
    // Not a copy, which would share its text: the streams end on different emitter threads, and
    // ThreadSanitizer cannot see the reference count of the prebuilt Abseil.
    own.status = absl::Status(end.status.code(), end.status.message());
    own.final_bytes = s->text_bytes;
    EndSequence(s, own, now);
  }
}

void SequenceTable::ExpireDeadlines(absl::Time now) {
  scratch_.clear();
  for (const auto& entry : sequences_) {
    if (entry.second->spec.deadline <= now) scratch_.push_back(entry.second.get());
  }
  for (Sequence* s : scratch_) {
    EndSequence(s,
                End{.reason = FinishReason::kDeadline,
                    .status = absl::DeadlineExceededError("the request's deadline has passed"),
                    .final_bytes = s->text_bytes},
                now);
  }
}

void SequenceTable::Sweep() {
  std::erase_if(ended_, [&](const std::unique_ptr<Sequence>& s) {
    return s->last_step <= state_->completed_step;
  });
}

void SequenceTable::LeaveQueue(Sequence* s) {
  if (!std::exchange(s->queued, false)) return;
  admission_->LeftQueue(s->prompt_count);
}

Finish SequenceTable::MakeFinish(const Sequence& s, const End& end, absl::Time now) const {
  Finish finish;
  finish.reason = end.reason;
  finish.status = end.status;
  finish.stop_token_id = end.stop_token_id;
  finish.stop_string_index = end.stop_string_index;
  finish.prompt_tokens = s.prompt_count;
  finish.completion_tokens = s.output_count();
  finish.seed = s.spec.sampling.seed;
  const bool planned = s.first_planned != absl::InfiniteFuture();
  const bool has_token = s.first_token != absl::InfiniteFuture();
  finish.timings.queue = (planned ? s.first_planned : now) - s.spec.arrival;
  if (planned) finish.timings.prefill = (has_token ? s.first_token : now) - s.first_planned;
  if (has_token) finish.timings.ttft = s.first_token - s.spec.arrival;
  finish.timings.total = now - s.spec.arrival;
  return finish;
}

}  // namespace rally
