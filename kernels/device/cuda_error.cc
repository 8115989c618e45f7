#include "kernels/device/cuda_error.h"

#include "absl/strings/str_cat.h"

namespace rally {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorInsufficientDriver:
    case cudaErrorMpsServerNotReady:
    case cudaErrorNoDevice:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string CudaErrorText(cudaError_t error) {
  return absl::StrCat(cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
}

absl::Status CudaStatus(cudaError_t error, absl::string_view where, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(where, ": ", what, ": ", CudaErrorText(error)));
}

}  // namespace rally
