// Zeroed, page-aligned host memory behind the Buffer interface.
#ifndef RALLY_KERNELS_DEVICE_HOST_MEMORY_H_
#define RALLY_KERNELS_DEVICE_HOST_MEMORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace rally {

// What the machine, or the control group of this process, has.
DeviceMemory HostMemory();

// Address space for `max_bytes`, of which the first `bytes` are usable. RESOURCE_EXHAUSTED where
// the machine (or its control group) has less memory than that left; `device` stands in messages.
absl::StatusOr<std::unique_ptr<Buffer>> NewHostBuffer(const std::string& device, size_t bytes,
                                                      size_t max_bytes);

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_HOST_MEMORY_H_
