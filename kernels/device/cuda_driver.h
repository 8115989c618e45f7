// The driver functions for memory that grows in place. They are asked of the CUDA runtime, which
// loads the driver, so that nothing links against libcuda.
#ifndef RALLY_KERNELS_DEVICE_CUDA_DRIVER_H_
#define RALLY_KERNELS_DEVICE_CUDA_DRIVER_H_

#include <cuda.h>

#include "absl/status/statusor.h"

namespace rally {

// Each member is cu<member>.
struct CudaDriver {
  decltype(&cuGetErrorName) GetErrorName = nullptr;
  decltype(&cuMemAddressFree) MemAddressFree = nullptr;
  decltype(&cuMemAddressReserve) MemAddressReserve = nullptr;
  decltype(&cuMemCreate) MemCreate = nullptr;
  decltype(&cuMemGetAllocationGranularity) MemGetAllocationGranularity = nullptr;
  decltype(&cuMemMap) MemMap = nullptr;
  decltype(&cuMemRelease) MemRelease = nullptr;
  decltype(&cuMemSetAccess) MemSetAccess = nullptr;
  decltype(&cuMemUnmap) MemUnmap = nullptr;
};

// UNIMPLEMENTED names the function that the driver lacks. Any thread.
absl::StatusOr<const CudaDriver*> LoadCudaDriver();

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_DRIVER_H_
