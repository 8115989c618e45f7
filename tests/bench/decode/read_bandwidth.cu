#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/decode/read_bandwidth.h"

namespace rally {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kLoadsInFlight = 8;  // of 16 bytes, a thread
constexpr int kRepeats = 10;
constexpr unsigned kNeverSeen = 1;  // the memory is zero; the compiler does not know

__global__ void __launch_bounds__(kThreads)
    ReadOnce(const uint4* words, size_t count, unsigned* seen) {
  const size_t stride = size_t{gridDim.x} * kThreads;
  unsigned bits = 0;
  size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoadsInFlight - 1) * stride < count; i += kLoadsInFlight * stride) {
    uint4 loaded[kLoadsInFlight];
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) loaded[k] = __ldcs(words + i + k * stride);
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      bits |= loaded[k].x | loaded[k].y | loaded[k].z | loaded[k].w;
    }
  }
  for (; i < count; i += stride) {
    const uint4 word = __ldcs(words + i);
    bits |= word.x | word.y | word.z | word.w;
  }
  if (bits == kNeverSeen) *seen = bits;
}

struct Reader {
  ~Reader() {
    static_cast<void>(cudaFree(words));
    static_cast<void>(cudaFree(seen));
    if (begin != nullptr) static_cast<void>(cudaEventDestroy(begin));
    if (end != nullptr) static_cast<void>(cudaEventDestroy(end));
    if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
  }

  cudaError_t Open(int ordinal, size_t bytes) {
    cudaError_t error = cudaSetDevice(ordinal);
    const auto then = [&](cudaError_t next) { error = error == cudaSuccess ? next : error; };
    int multiprocessors = 0;
    then(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal));
    blocks = multiprocessors * kBlocksPerMultiprocessor;
    then(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    then(cudaEventCreate(&begin));
    then(cudaEventCreate(&end));
    then(cudaMalloc(&seen, sizeof(*seen)));
    then(cudaMalloc(&words, bytes));
    if (error == cudaSuccess) error = cudaMemsetAsync(words, 0, bytes, stream);
    return error;
  }

  cudaError_t Read(size_t bytes, float* ms) {
    cudaError_t error = cudaEventRecord(begin, stream);
    if (error != cudaSuccess) return error;
    ReadOnce<<<blocks, kThreads, 0, stream>>>(words, bytes / sizeof(uint4), seen);
    error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaEventRecord(end, stream);
    if (error == cudaSuccess) error = cudaEventSynchronize(end);
    return error == cudaSuccess ? cudaEventElapsedTime(ms, begin, end) : error;
  }

  int blocks = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  uint4* words = nullptr;
  unsigned* seen = nullptr;
};

absl::Status Failure(int ordinal, size_t bytes, cudaError_t error) {
  return absl::InternalError(absl::StrCat("cuda:", ordinal, ": reading ", bytes >> 20,
                                          " MiB of device memory: ", cudaGetErrorString(error)));
}

}  // namespace

absl::StatusOr<double> CudaReadBandwidth(int ordinal, size_t bytes) {
  Reader reader;
  cudaError_t error = reader.Open(ordinal, bytes);
  float best_ms = std::numeric_limits<float>::max();
  for (int repeat = 0; repeat < kRepeats && error == cudaSuccess; ++repeat) {
    float ms = 0;
    error = reader.Read(bytes, &ms);
    best_ms = std::min(best_ms, ms);
  }
  if (error != cudaSuccess) return Failure(ordinal, bytes, error);
  return static_cast<double>(bytes) / (best_ms * 1e-3);
}

}  // namespace rally
