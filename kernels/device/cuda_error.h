// CUDA results as Status, and the first of them as a device's state.
#ifndef RALLY_KERNELS_DEVICE_CUDA_ERROR_H_
#define RALLY_KERNELS_DEVICE_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rally {

// "cudaErrorNoDevice (no CUDA-capable device is detected)"
std::string CudaErrorText(cudaError_t error);

// OK, or "<where>: <what>: <error>". UNAVAILABLE where the device or its driver is lost,
// RESOURCE_EXHAUSTED for memory, else INTERNAL.
absl::Status CudaStatus(cudaError_t error, absl::string_view where, absl::string_view what);

// The first error of a device. Any thread.
class CudaFault {
 public:
  bool ok() const { return ok_.load(std::memory_order_acquire); }
  absl::Status status() const {
    if (ok()) return absl::OkStatus();
    std::lock_guard lock(mu_);
    return first_;
  }
  void Set(absl::Status error) {
    std::lock_guard lock(mu_);
    if (error.ok() || !first_.ok()) return;
    first_ = std::move(error);
    ok_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> ok_ = true;
  mutable std::mutex mu_;
  absl::Status first_;
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_ERROR_H_
