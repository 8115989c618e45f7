// Time for arrivals, latencies and deadlines: never steps back within a process.
#ifndef RALLY_ENGINE_BASE_CLOCK_H_
#define RALLY_ENGINE_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rally {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The wall clock read once, then advanced by the steady clock: a clock change moves no latency and
// no deadline.
class MonotonicClock : public Clock {
 public:
  static const MonotonicClock& Get() {
    static const MonotonicClock clock;
    return clock;
  }
  absl::Time Now() const override { return wall_ + absl::FromChrono(Steady::now() - steady_); }

 private:
  using Steady = std::chrono::steady_clock;
  MonotonicClock() : wall_(absl::Now()), steady_(Steady::now()) {}
  const absl::Time wall_;
  const Steady::time_point steady_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_BASE_CLOCK_H_
