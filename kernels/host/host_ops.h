// The host ops as plain functions: what the op table enqueues, and what tests call directly.
// Semantics and shapes are those of kernels/ops.h. Each runs to its end on the caller and its
// OpenMP threads, and allocates nothing. Element types are fp32 and bf16.
#ifndef RALLY_KERNELS_HOST_HOST_OPS_H_
#define RALLY_KERNELS_HOST_HOST_OPS_H_

#include "kernels/ops.h"

namespace rally {

void RunApplyRecord(const ApplyRecordArgs& a);
void RunEmbed(const EmbedArgs& a);
void RunNorm(const NormArgs& a);
void RunHeadNorm(const HeadNormArgs& a);
void RunRope(const RopeArgs& a);
void RunKvAppend(const KvAppendArgs& a);
void RunAttention(const AttentionArgs& a);
void RunActivation(const ActivationArgs& a);
void RunGather(const GatherArgs& a);
void RunSample(const SampleArgs& a);

// What a row's choice came to.
struct SampledToken {
  int32_t token = 0;
  int32_t flags = 0;  // kOutcomeNotFinite, or 0
};

// Chooses a token for a slot that is not done. Overwrites the row of `vocab` logits.
SampledToken ChooseToken(const SlotState& slot, float* logits, int32_t vocab);

// Advances the slot by the choice and fills its outcome row. A slot that was done stays as it is
// and its row says kOutcomeSurplus.
void CommitSample(const SampledToken& sampled, int32_t slot_id, SlotState* slot, OutcomeRow* row);

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_HOST_OPS_H_
