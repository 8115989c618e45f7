// Move-only owners of CUDA handles. What a destructor finds wrong was, or will be, seen by the call
// that waits for the device.
#ifndef RALLY_KERNELS_DEVICE_CUDA_HANDLES_H_
#define RALLY_KERNELS_DEVICE_CUDA_HANDLES_H_

#include <cuda_runtime_api.h>

#include <utility>

namespace rally {

template <typename Handle, cudaError_t (*kDestroy)(Handle)>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(Handle handle) : handle_(handle) {}
  CudaOwner(CudaOwner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ != nullptr) static_cast<void>(kDestroy(handle_));
  }

  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CudaStreamOwner = CudaOwner<cudaStream_t, &cudaStreamDestroy>;
using CudaEventOwner = CudaOwner<cudaEvent_t, &cudaEventDestroy>;
using CudaGraphOwner = CudaOwner<cudaGraph_t, &cudaGraphDestroy>;
using CudaGraphExecOwner = CudaOwner<cudaGraphExec_t, &cudaGraphExecDestroy>;

// A stream that does not wait for the default stream.
inline cudaError_t MakeCudaStream(CudaStreamOwner* owner) {
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  *owner = CudaStreamOwner(stream);
  return error;
}

// An event that orders and notifies; one that takes no time stamp is cheaper.
inline cudaError_t MakeCudaEvent(CudaEventOwner* owner, bool timed = false) {
  cudaEvent_t event = nullptr;
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  const cudaError_t error = cudaEventCreateWithFlags(&event, flags);
  *owner = CudaEventOwner(event);
  return error;
}

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_HANDLES_H_
