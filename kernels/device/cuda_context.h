// What a CUDA device shares with its streams, events, graphs and buffers; it lives as long as the
// last of them.
#ifndef RALLY_KERNELS_DEVICE_CUDA_CONTEXT_H_
#define RALLY_KERNELS_DEVICE_CUDA_CONTEXT_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/device/cuda_error.h"
#include "kernels/device/cuda_handles.h"
#include "kernels/device/cuda_stream.h"

namespace rally {

struct CudaContext {
  CudaContext() = default;
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;
  ~CudaContext() {
    MakeCurrent();
    if (cublas != nullptr) lt->Destroy(cublas);
    static_cast<void>(cudaFree(scratch.data));
  }

  // The runtime keeps the current device a thread, and any call on a thread that never chose one
  // would open a context on device 0. Choosing the same one again costs some tens of nanoseconds.
  void MakeCurrent() const { static_cast<void>(cudaSetDevice(ordinal)); }

  int ordinal = 0;
  std::string name;  // "cuda:0"
  int multiprocessors = 0;
  const CublasLt* lt = nullptr;
  cublasLtHandle_t cublas = nullptr;
  CudaScratch scratch;
  CudaStreamOwner setup;              // zeroes new memory; idle in between
  std::vector<cudaStream_t> streams;  // open ones, for the end of the device
  CudaFault fault;
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_CONTEXT_H_
