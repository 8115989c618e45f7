// The decode-stack op of the CUDA device: what it prepares at start-up and how it is enqueued. The
// kernel is in decode_stack_kernel.cuh.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_H_
#define RALLY_KERNELS_CUDA_DECODE_STACK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace rally {

// Null where the kernel does not take the model: it wants bf16 or fp16, widths that are multiples
// of 32, heads of at most 128 values and at most 8 query heads to a KV head.
absl::StatusOr<std::unique_ptr<DecodeStack>> MakeCudaDecodeStack(Device& device,
                                                                 const DecodeStackModel& model);
void EnqueueDecodeStack(Stream& stream, const DecodeStackArgs& a);

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_H_
