#include "kernels/cuda/op_table.h"

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/decode_stack.h"

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
      .decode_attention = &EnqueueFusedDecodeAttention,
      .fused_linear = &EnqueueFusedLinear,
      .decode_stack = &EnqueueDecodeStack,
      .make_decode_stack = &MakeCudaDecodeStack,
      .make_weight = &MakeCudaWeight,
      .upload = &UploadToCuda,
  };
  return kTable;
}

}  // namespace rally
