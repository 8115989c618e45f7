#include "server/devices.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "spdlog/spdlog.h"

namespace rally {
namespace {

constexpr int kMaxRanks = 64;

struct DeviceFlag {
  DeviceKind kind = DeviceKind::kHost;
  std::optional<int> ranks;  // absent: one on the host, all GPUs
};

absl::StatusOr<DeviceFlag> ParseFlag(const std::string& devices) {
  absl::string_view rest = devices;
  DeviceFlag flag;
  if (absl::ConsumePrefix(&rest, "cuda")) {
    flag.kind = DeviceKind::kCuda;
  } else if (!absl::ConsumePrefix(&rest, "host")) {
    rest = "?";
  }
  if (rest.empty()) return flag;
  int ranks = 0;
  if (!absl::ConsumePrefix(&rest, ":") || !absl::SimpleAtoi(rest, &ranks) || ranks < 1 ||
      ranks > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--devices: \"", devices,
        "\" is none of auto, host, host:N, cuda and cuda:N with N in [1, ", kMaxRanks, "]"));
  }
  flag.ranks = ranks;
  return flag;
}

absl::StatusOr<DeviceRanks> OpenHost(int ranks) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  DeviceRanks opened;
  for (int i = 0; i < ranks; ++i) {
    RALLY_ASSIGN_OR_RETURN(opened.devices.emplace_back(),
                           NewHostDevice({.ordinal = i, .threads = std::max(1, cores / ranks)}));
  }
  return opened;
}

absl::StatusOr<DeviceRanks> OpenCuda(std::optional<int> ranks) {
  std::string why_none;
  const int count = CudaDeviceCount(&why_none);
  if (count == 0) return absl::UnavailableError(absl::StrCat("--devices: ", why_none));
  if (ranks.value_or(1) > count) {
    return absl::UnavailableError(
        absl::StrCat("--devices: ", *ranks, " GPUs were asked for, ", count, " can be seen here"));
  }
  DeviceRanks opened;
  opened.kind = DeviceKind::kCuda;
  for (int i = 0; i < ranks.value_or(count); ++i) {
    RALLY_ASSIGN_OR_RETURN(opened.devices.emplace_back(), NewCudaDevice({.ordinal = i}));
  }
  return opened;
}

}  // namespace

absl::StatusOr<DeviceRanks> OpenDevices(const std::string& devices) {
  if (devices == "auto") {
    std::string why_none;
    if (CudaDeviceCount(&why_none) > 0) return OpenCuda(std::nullopt);
    spdlog::info("serving on the host: {}", why_none);
    return OpenHost(1);
  }
  RALLY_ASSIGN_OR_RETURN(const DeviceFlag flag, ParseFlag(devices));
  return flag.kind == DeviceKind::kCuda ? OpenCuda(flag.ranks) : OpenHost(flag.ranks.value_or(1));
}

absl::StatusOr<DType> ComputeType(const std::string& dtype, DeviceKind kind) {
  if (dtype == "bf16") return DType::kBF16;
  if (dtype == "fp32") return DType::kF32;
  if (dtype == "fp16") {
    if (kind == DeviceKind::kCuda) return DType::kF16;
    return absl::InvalidArgumentError(
        "--dtype: fp16 is computed on GPUs only; the host has bf16 and fp32");
  }
  return kind == DeviceKind::kCuda || HostHasBf16() ? DType::kBF16 : DType::kF32;
}

}  // namespace rally
