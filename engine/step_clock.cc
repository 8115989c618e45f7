#include "engine/step_clock.h"

#include <cstdlib>
#include <utility>

#include "engine/base/status_macros.h"

namespace rally {

// The differences are followed from step to step until they leave the stamps by more than these
// can be off: after a pause, or where the two clocks have drifted apart.
void StampRefiner::Refine(int64_t gap_ns, int64_t length_ns, OutcomeHeader* header) {
  const int64_t followed = last_end_ns_ + gap_ns;
  const bool follows = last_end_ns_ != 0 && std::abs(followed - header->start_ns) <= 2 * tick_ns_;
  if (follows) header->start_ns = followed;
  header->end_ns = header->start_ns + length_ns;
  last_end_ns_ = header->end_ns;
}

absl::StatusOr<StepClock> StepClock::Create(Device* device, size_t steps_in_ring) {
  const int64_t tick_ns = device->clock_tick_ns();
  StepClock clock(tick_ns);
  if (tick_ns <= kCoarseTickNanos) return clock;
  clock.ring_.resize(steps_in_ring);
  for (Span& span : clock.ring_) {
    RALLY_ASSIGN_OR_RETURN(span.began, device->NewTimedEvent());
    RALLY_ASSIGN_OR_RETURN(span.ended, device->NewTimedEvent());
  }
  return clock;
}

void StepClock::Begin(Stream& stream, uint64_t step) {
  if (uses_events()) stream.Record(*SpanOf(step).began);
}

void StepClock::End(Stream& stream, uint64_t step) {
  if (uses_events()) stream.Record(*SpanOf(step).ended);
}

void StepClock::Correct(uint64_t step, OutcomeHeader* header) {
  if (!uses_events()) return;
  const Span& span = SpanOf(step);
  const int64_t length = span.ended->NanosSince(*span.began);
  const int64_t gap = step == 1 ? 0 : span.began->NanosSince(*SpanOf(step - 1).ended);
  refiner_.Refine(gap, length, header);
}

}  // namespace rally
