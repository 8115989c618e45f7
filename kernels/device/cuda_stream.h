// How the CUDA ops reach their stream and what the device shares with them.
#ifndef RALLY_KERNELS_DEVICE_CUDA_STREAM_H_
#define RALLY_KERNELS_DEVICE_CUDA_STREAM_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/device/device.h"

namespace rally {

// Device memory for partial results and the cuBLASLt workspace: one a device, zeroed at start,
// aligned to 256. All streams share it, so two ops may use it only in event order; steps are.
struct CudaScratch {
  void* data = nullptr;
  size_t bytes = 0;
};

class CudaStream : public Stream {
 public:
  virtual cudaStream_t handle() const = 0;
  // Takes the result of a CUDA call or cudaGetLastError(); the first error sticks in the device.
  virtual void Check(cudaError_t error, const char* what) = 0;
  // For errors that are no cudaError_t, such as cuBLASLt's: the device's error, if it is the first.
  virtual void Fail(absl::Status error) = 0;
  virtual CudaScratch& scratch() = 0;
  virtual const CublasLt& cublas_lt() = 0;
  virtual cublasLtHandle_t cublas() = 0;
  virtual int multiprocessors() const = 0;
};

// Every stream that a CUDA op is given came from a CUDA device.
inline CudaStream& OnCuda(Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_STREAM_H_
