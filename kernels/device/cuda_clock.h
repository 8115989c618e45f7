// The clock that kernels stamp steps with, %globaltimer, read from the host.
//
// The two clocks drift apart: 6 us a second on one H200. So the mapping is measured again while the
// device works, by a one-thread kernel on a stream of its own that answers questions of the host
// through pinned memory. The error of a measurement is at most half of its shortest round trip,
// about 1 us; measured back to back, two differ by less than 0.1 us.
#ifndef RALLY_KERNELS_DEVICE_CUDA_CLOCK_H_
#define RALLY_KERNELS_DEVICE_CUDA_CLOCK_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device/cuda_handles.h"

namespace rally {

// What the host and the kernel pass each other, in pinned memory that both poll.
struct CudaClockCells {
  int32_t question = 0;  // the host: the round that it asks for, 0: none any more
  int32_t answer = 0;    // the kernel: the round that it has answered
  int64_t device_ns = 0;
  int64_t tick_ns = 0;  // the kernel at start-up: see CudaClock::tick_ns
};

class CudaClock {
 public:
  // Of the current device, which `where` names in messages. Waits for the first kernel.
  static absl::StatusOr<std::unique_ptr<CudaClock>> Start(absl::string_view where);
  CudaClock() = default;
  ~CudaClock();

  // %globaltimer now, by the mapping. Once a second a call measures it again, which takes about
  // 30 us of the calling thread, and at most 1 ms if the device does not answer.
  // The device must be current. One thread at a time.
  int64_t Nanos();
  // The smallest step of %globaltimer that a kernel saw at start-up.
  int64_t tick_ns() const { return tick_ns_; }

 private:
  struct FreePinned {
    void operator()(CudaClockCells* cells) const { static_cast<void>(cudaFreeHost(cells)); }
  };
  // device clock = host clock + offset, at that time of the host
  struct Sample {
    int64_t host_ns = 0;
    int64_t offset_ns = 0;
    int64_t round_trip_ns = 0;
  };

  cudaError_t Launch();
  bool Ask(int64_t patience_ns, Sample* best);
  void Refresh();

  std::unique_ptr<CudaClockCells, FreePinned> cells_;
  CudaStreamOwner stream_;
  int64_t tick_ns_ = 0;
  int32_t last_round_ = 0;
  Sample sample_;
  double drift_ = 0;  // change of the offset a host nanosecond
  int64_t next_refresh_ns_ = 0;
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_CLOCK_H_
