// The memory of the emulated device, behind the Buffer interface.
//
// A buffer lies at the end of its pages and the next page faults, so that an access more than 256
// bytes beyond it ends the program; the bytes in between are checked when it is freed.
#ifndef RALLY_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_
#define RALLY_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace rally::emulation {

absl::StatusOr<std::unique_ptr<Buffer>> NewDeviceBuffer(size_t bytes);
// Address space for `max_bytes`, of which the first `bytes` are usable.
absl::StatusOr<std::unique_ptr<Buffer>> NewReservation(size_t bytes, size_t max_bytes);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_DEVICE_MEMORY_H_
