// The decoder: GPT-2's and Llama's family of pre-norm transformers, as ModelConfig describes them.
//
// The residual stream and the logits are fp32; what goes into a matrix product has the compute
// type, and so has the KV cache.
#ifndef RALLY_ENGINE_MODEL_TRANSFORMER_H_
#define RALLY_ENGINE_MODEL_TRANSFORMER_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/decoder_model.h"
#include "engine/model/model_source.h"
#include "engine/model/parameters.h"
#include "engine/model/workspace.h"
#include "kernels/device/device.h"

namespace rally {

class Transformer final : public DecoderModel {
 public:
  // `device` outlives the model. Errors name the parameter or the field.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(Device& device, ModelSource source,
                                                             DType dtype,
                                                             const LoadProgress& progress = {});

  int64_t KvBlockBytes(int32_t block_tokens) const override;
  int32_t context_length() const override { return config_.context_length; }
  int32_t vocab_size() const override { return config_.vocab_size; }
  int64_t resident_bytes() const override;
  absl::Status Prepare(const StepLimits& limits, int32_t block_tokens) override;
  void Forward(Stream& stream, const StepTensors& step, const StepShape& shape) override;

  const ModelConfig& config() const { return config_; }
  // (max_samples, V) fp32, of the newest step. Its Sample op overwrites rows that are not greedy.
  const Matrix& logits() const { return work_.logits; }

 private:
  Transformer(Device& device, ModelConfig config, DType dtype, Parameters parameters)
      : device_(device),
        config_(std::move(config)),
        dtype_(dtype),
        parameters_(std::move(parameters)) {}

  struct Pass;  // one Forward: the stream, the step and what follows from them
  KvCacheView KvView(std::byte* base) const;
  DecodeStackModel StackModel() const;

  Device& device_;
  const ModelConfig config_;
  const DType dtype_;
  const Parameters parameters_;
  Workspace work_;
  std::unique_ptr<DecodeStack> stack_;  // null where the device has none for this model
  StepLimits limits_;
  int32_t block_tokens_ = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_TRANSFORMER_H_
