// The device ranks that --devices names.
#ifndef RALLY_SERVER_DEVICES_H_
#define RALLY_SERVER_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/tensor.h"

namespace rally {

// "host": one rank with all cores. "host:N": N ranks, each with its share of the cores.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(const std::string& devices);

// --dtype as a type: "auto" is bf16 where the CPU multiplies it in hardware, else fp32.
DType ComputeType(const std::string& dtype);

}  // namespace rally

#endif  // RALLY_SERVER_DEVICES_H_
