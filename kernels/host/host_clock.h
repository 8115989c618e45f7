// The clock of the host device's step stamps.
#ifndef RALLY_KERNELS_HOST_HOST_CLOCK_H_
#define RALLY_KERNELS_HOST_HOST_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace rally {

inline int64_t HostClockNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_HOST_CLOCK_H_
