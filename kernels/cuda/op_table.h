// The ops of the CUDA device.
#ifndef RALLY_KERNELS_CUDA_OP_TABLE_H_
#define RALLY_KERNELS_CUDA_OP_TABLE_H_

#include "kernels/ops.h"

namespace rally {

const OpTable& CudaOps();

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_OP_TABLE_H_
