#include "kernels/device/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rally {
namespace {

constexpr unsigned int kDriverApiVersion = 12000;

absl::StatusOr<CudaDriver> Load() {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* symbol = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &symbol, kDriverApiVersion,
                                                               cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  CudaDriver driver;
  find("cuGetErrorName", driver.GetErrorName);
  find("cuMemAddressFree", driver.MemAddressFree);
  find("cuMemAddressReserve", driver.MemAddressReserve);
  find("cuMemCreate", driver.MemCreate);
  find("cuMemGetAllocationGranularity", driver.MemGetAllocationGranularity);
  find("cuMemMap", driver.MemMap);
  find("cuMemRelease", driver.MemRelease);
  find("cuMemSetAccess", driver.MemSetAccess);
  find("cuMemUnmap", driver.MemUnmap);
  if (missing != nullptr) {
    return absl::UnimplementedError(absl::StrCat("the CUDA driver lacks ", missing));
  }
  return driver;
}

}  // namespace

absl::StatusOr<const CudaDriver*> LoadCudaDriver() {
  static const auto* const loaded = new absl::StatusOr<CudaDriver>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace rally
