// The GPU behind the device interface. No CUDA header is needed here; in a build without CUDA both
// functions say that there is none and how to get it (cuda_absent.cc).
//
// Streams never wait for the default stream, which nothing uses, and after start-up nothing
// synchronises the device. One thread at a time may use the device; it need not be the one that
// made it.
#ifndef RALLY_KERNELS_DEVICE_CUDA_DEVICE_H_
#define RALLY_KERNELS_DEVICE_CUDA_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace rally {

struct CudaDeviceOptions {
  int ordinal = 0;
  // Shared by the ops of all streams (CudaScratch): cuBLASLt's workspace, partial results.
  size_t scratch_bytes = size_t{64} << 20;
};

// UNAVAILABLE where there is no such GPU, with what was looked for. NOT_FOUND: no cuBLASLt.
absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions& options);

// Number of GPUs; where it is 0, `why_none` says what the driver answered.
int CudaDeviceCount(std::string* why_none);

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_DEVICE_H_
