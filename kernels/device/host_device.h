// The device that every machine has: its streams are queues of plain functions.
//
// It is asynchronous like a GPU, so that the same loop runs on both. One compute thread a device
// runs the entries of all its streams in event order and is the only OpenMP master there; it sleeps
// while nothing can run.
#ifndef RALLY_KERNELS_DEVICE_HOST_DEVICE_H_
#define RALLY_KERNELS_DEVICE_HOST_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace rally {

class OneDnnPlans;

struct HostDeviceOptions {
  int ordinal = 0;
  int threads = 1;  // of one op, the compute thread included; >= 1
  // For tests of ordering: a worker a stream, each with single-threaded ops.
  bool worker_per_stream = false;
};

absl::StatusOr<std::unique_ptr<Device>> NewHostDevice(const HostDeviceOptions& options);

// The matmul plans of a host device, made for its number of threads.
std::shared_ptr<OneDnnPlans> HostPlans(Device& device);

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_HOST_DEVICE_H_
