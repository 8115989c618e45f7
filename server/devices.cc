#include "server/devices.h"

#include <algorithm>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"

namespace rally {
namespace {

constexpr int kMaxHostRanks = 64;

absl::StatusOr<int> HostRanks(const std::string& devices) {
  if (devices == "host") return 1;
  absl::string_view count = devices;
  int ranks = 0;
  if (!absl::ConsumePrefix(&count, "host:") || !absl::SimpleAtoi(count, &ranks) || ranks < 1 ||
      ranks > kMaxHostRanks) {
    return absl::InvalidArgumentError(absl::StrCat("--devices: \"", devices,
                                                   "\" is neither host nor host:N with N in [1, ",
                                                   kMaxHostRanks, "]"));
  }
  return ranks;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(const std::string& devices) {
  RALLY_ASSIGN_OR_RETURN(const int ranks, HostRanks(devices));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<Device>> opened;
  for (int i = 0; i < ranks; ++i) {
    RALLY_ASSIGN_OR_RETURN(opened.emplace_back(),
                           NewHostDevice({.ordinal = i, .threads = std::max(1, cores / ranks)}));
  }
  return opened;
}

DType ComputeType(const std::string& dtype) {
  if (dtype == "bf16") return DType::kBF16;
  if (dtype == "fp32") return DType::kF32;
  return HostHasBf16() ? DType::kBF16 : DType::kF32;
}

}  // namespace rally
