// Matrix products of many rows, by cuBLASLt.
#ifndef RALLY_KERNELS_CUDA_LT_MATMUL_H_
#define RALLY_KERNELS_CUDA_LT_MATMUL_H_

#include "kernels/device/cuda_stream.h"
#include "kernels/ops.h"

namespace rally {

// `args` for all args.max_rows rows, but with `bias` in the type of args.out (or null) in place of
// args.bias.
void LtMatmul(CudaStream& stream, const MatmulArgs& args, const void* bias,
              const CudaScratch& workspace);

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_LT_MATMUL_H_
