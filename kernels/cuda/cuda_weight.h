// Weights of the CUDA device: row-major in the compute type, rows padded with zeros to whole
// 16-byte loads, and the cuBLASLt algorithms that were chosen for them.
#ifndef RALLY_KERNELS_CUDA_CUDA_WEIGHT_H_
#define RALLY_KERNELS_CUDA_CUDA_WEIGHT_H_

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace rally {

// The algorithm for products of up to `rows` rows.
struct LtChoice {
  int32_t rows = 0;
  DType out_dtype = DType::kF32;
  bool bias = false;
  cublasLtMatmulAlgo_t algorithm;
};

struct CudaWeight final : Weight {
  size_t size_bytes() const override { return buffer->size_bytes(); }

  int32_t stride = 0;  // elements from row to row
  std::unique_ptr<Buffer> buffer;
  // Filled as row counts turn up, by the one thread that uses the device.
  mutable std::vector<LtChoice> choices;
};

absl::StatusOr<std::unique_ptr<Weight>> MakeCudaWeight(Device& device, DType dtype,
                                                       const RowSource& source);
absl::Status UploadToCuda(Device& device, DType dtype, const RowSource& source, void* dst);

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_CUDA_WEIGHT_H_
