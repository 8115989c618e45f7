#include "kernels/cuda/op_table.h"

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"

namespace rally {

const OpTable& CudaOps() {
  static constexpr OpTable kTable = {
      .apply_record = &EnqueueApplyRecord,
      .embed = &EnqueueEmbed,
      .norm = &EnqueueNorm,
      .head_norm = &EnqueueHeadNorm,
      .matmul = &EnqueueMatmul,
      .rope = &EnqueueRope,
      .kv_append = &EnqueueKvAppend,
      .attention = &EnqueueAttention,
      .activation = &EnqueueActivation,
      .gather = &EnqueueGather,
      .sample = &EnqueueSample,
      .make_weight = &MakeCudaWeight,
      .upload = &UploadToCuda,
  };
  return kTable;
}

}  // namespace rally
