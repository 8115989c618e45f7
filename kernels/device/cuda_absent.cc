// Stands for the CUDA device in a build without CUDA.
#include "absl/status/status.h"
#include "kernels/device/cuda_device.h"

namespace rally {
namespace {

constexpr char kWhy[] =
    "this program was built without CUDA: configure with -DRALLY_CUDA=ON where nvcc is installed";

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions&) {
  return absl::UnavailableError(kWhy);
}

int CudaDeviceCount(std::string* why_none) {
  *why_none = kWhy;
  return 0;
}

}  // namespace rally
