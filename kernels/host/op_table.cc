#include "kernels/host/op_table.h"

#include "kernels/device/host_stream.h"
#include "kernels/host/host_ops.h"
#include "kernels/host/matmul.h"

namespace rally {
namespace {

void EnqueueMatmul(Stream& stream, const MatmulArgs& args) {
  const absl::StatusOr<PlannedMatmul> planned = PlanMatmul(args);
  if (planned.ok()) {
    EnqueueOnHost<&RunMatmul>(stream, *planned);
  } else {
    static_cast<HostStream&>(stream).Fail(planned.status());
  }
}

absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Device& device, DType dtype,
                                                   const RowSource& source) {
  return MakeHostWeight(device, dtype, HostWeightLayout(), source);
}

absl::Status Upload(Device&, DType dtype, const RowSource& source, void* dst) {
  return UploadToHost(dtype, source, dst);
}

}  // namespace

const OpTable& HostOps() {
  static constexpr OpTable kTable = {
      .apply_record = &EnqueueOnHost<&RunApplyRecord, ApplyRecordArgs>,
      .embed = &EnqueueOnHost<&RunEmbed, EmbedArgs>,
      .norm = &EnqueueOnHost<&RunNorm, NormArgs>,
      .head_norm = &EnqueueOnHost<&RunHeadNorm, HeadNormArgs>,
      .matmul = &EnqueueMatmul,
      .rope = &EnqueueOnHost<&RunRope, RopeArgs>,
      .kv_append = &EnqueueOnHost<&RunKvAppend, KvAppendArgs>,
      .attention = &EnqueueOnHost<&RunAttention, AttentionArgs>,
      .activation = &EnqueueOnHost<&RunActivation, ActivationArgs>,
      .gather = &EnqueueOnHost<&RunGather, GatherArgs>,
      .sample = &EnqueueOnHost<&RunSample, SampleArgs>,
      .make_weight = &MakeWeight,
      .upload = &Upload,
  };
  return kTable;
}

}  // namespace rally
