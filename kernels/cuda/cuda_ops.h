// The launchers of the CUDA ops, one file each. Semantics and shapes are those of kernels/ops.h;
// element types are fp32, bf16 and fp16. A launcher enqueues its kernels and returns: it neither
// allocates nor synchronises, so it may be captured.
#ifndef RALLY_KERNELS_CUDA_CUDA_OPS_H_
#define RALLY_KERNELS_CUDA_CUDA_OPS_H_

#include "kernels/ops.h"

namespace rally {

void EnqueueApplyRecord(Stream& stream, const ApplyRecordArgs& a);
void EnqueueEmbed(Stream& stream, const EmbedArgs& a);
void EnqueueNorm(Stream& stream, const NormArgs& a);
void EnqueueHeadNorm(Stream& stream, const HeadNormArgs& a);
void EnqueueMatmul(Stream& stream, const MatmulArgs& a);
void EnqueueRope(Stream& stream, const RopeArgs& a);
void EnqueueKvAppend(Stream& stream, const KvAppendArgs& a);
void EnqueueAttention(Stream& stream, const AttentionArgs& a);
void EnqueueActivation(Stream& stream, const ActivationArgs& a);
void EnqueueGather(Stream& stream, const GatherArgs& a);
void EnqueueSample(Stream& stream, const SampleArgs& a);
bool EnqueueFusedDecodeAttention(Stream& stream, const DecodeAttentionArgs& a);
bool EnqueueFusedLinear(Stream& stream, const FusedLinearArgs& a);

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_CUDA_OPS_H_
