// The memory of a CUDA device behind the Buffer interface, zeroed.
#ifndef RALLY_KERNELS_DEVICE_CUDA_MEMORY_H_
#define RALLY_KERNELS_DEVICE_CUDA_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/cuda_context.h"
#include "kernels/device/device.h"

namespace rally {

// Of the current device; zeros where it cannot be asked.
DeviceMemory CudaMemory();

// The context must be current. RESOURCE_EXHAUSTED says what was asked and what was free.
absl::StatusOr<std::unique_ptr<Buffer>> NewCudaBuffer(std::shared_ptr<CudaContext> context,
                                                      size_t bytes);

// Host memory that the device copies to and from, and may also read and write in place.
absl::StatusOr<std::unique_ptr<Buffer>> NewPinnedBuffer(std::shared_ptr<CudaContext> context,
                                                        size_t bytes);

// Address space for `max_bytes`, of which the first `bytes` are usable. What is usable is backed in
// pieces of the driver's granularity, 2 MiB.
absl::StatusOr<std::unique_ptr<Buffer>> NewCudaReservation(std::shared_ptr<CudaContext> context,
                                                           size_t bytes, size_t max_bytes);

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_MEMORY_H_
