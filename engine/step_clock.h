// When steps started and ended on the device.
//
// The kernels stamp the device's clock, to its tick: 32 ns on an H200. Where that clock ticks too
// coarsely for the gap between two steps (1 us on some GPUs), events around each step measure its
// length and the gap before it instead, and the stamps only say where on the clock that was. The
// events stand between the wait and the step, which costs what they are to measure some; so they
// are used only there.
#ifndef RALLY_ENGINE_STEP_CLOCK_H_
#define RALLY_ENGINE_STEP_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/step_record.h"

namespace rally {

// Joins stamps of a coarse clock with exact differences. Steps in order.
class StampRefiner {
 public:
  explicit StampRefiner(int64_t tick_ns) : tick_ns_(tick_ns) {}
  // Of one step: its length, and the gap since the step before; sets both stamps of the header.
  void Refine(int64_t gap_ns, int64_t length_ns, OutcomeHeader* header);

 private:
  int64_t tick_ns_;
  int64_t last_end_ns_ = 0;
};

// Engine thread only.
class StepClock {
 public:
  static constexpr int64_t kCoarseTickNanos = 250;

  // `steps_in_ring`: steps whose events are needed at once, the one before the oldest included.
  static absl::StatusOr<StepClock> Create(Device* device, size_t steps_in_ring);

  bool uses_events() const { return !ring_.empty(); }
  // Around the ops of a step; nothing where stamps are fine enough.
  void Begin(Stream& stream, uint64_t step);
  void End(Stream& stream, uint64_t step);
  // Once the step has ended, before its events are recorded again. Steps from 1, in order.
  void Correct(uint64_t step, OutcomeHeader* header);

 private:
  struct Span {
    std::unique_ptr<Event> began;
    std::unique_ptr<Event> ended;
  };

  explicit StepClock(int64_t tick_ns) : refiner_(tick_ns) {}
  Span& SpanOf(uint64_t step) { return ring_[step % ring_.size()]; }

  StampRefiner refiner_;
  std::vector<Span> ring_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_STEP_CLOCK_H_
