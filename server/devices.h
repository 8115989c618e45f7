// The device ranks that --devices names, and the compute type that they get.
#ifndef RALLY_SERVER_DEVICES_H_
#define RALLY_SERVER_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/tensor.h"

namespace rally {

enum class DeviceKind { kHost, kCuda };

struct DeviceRanks {
  DeviceKind kind = DeviceKind::kHost;
  std::vector<std::unique_ptr<Device>> devices;  // at least one
};

// "host": one rank with all cores; "host:N": N ranks, each with its share of the cores.
// "cuda": a rank on every GPU; "cuda:N": N ranks on the first N GPUs.
// "auto": "cuda" where there is a GPU, else "host".
absl::StatusOr<DeviceRanks> OpenDevices(const std::string& devices);

// --dtype as a type. "auto" is bf16, but fp32 on a CPU that does not multiply bf16 in hardware.
absl::StatusOr<DType> ComputeType(const std::string& dtype, DeviceKind kind);

}  // namespace rally

#endif  // RALLY_SERVER_DEVICES_H_
