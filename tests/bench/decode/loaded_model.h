// A model that is loaded once and lent to one engine after the other: an engine owns its device and
// its model, and loading 8 billion weights for each case would take longer than the case.
#ifndef RALLY_TESTS_BENCH_DECODE_LOADED_MODEL_H_
#define RALLY_TESTS_BENCH_DECODE_LOADED_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model/transformer.h"
#include "engine/step_pipeline.h"
#include "kernels/device/device.h"
#include "tests/bench/decode/bench_options.h"

namespace rally {

class LoadedModel {
 public:
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const BenchOptions& options);

  // One engine at a time; it ends before the next one starts.
  absl::StatusOr<std::unique_ptr<Engine>> StartEngine(const EngineConfig& config,
                                                      StepObserver* observer);
  // Bytes a second that this device reads from its memory, measured now. No engine is running.
  absl::StatusOr<double> ReadBandwidth();

  const std::string& name() const { return name_; }
  const ModelConfig& config() const { return model_->config(); }
  DType dtype() const { return dtype_; }
  std::string device_name() const { return device_->name(); }
  double weight_bytes() const;  // that a decode step reads
  double kv_bytes_per_token() const;

 private:
  LoadedModel() : no_text_({}) {}

  std::string name_;
  DType dtype_ = DType::kF32;
  int cuda_ordinal_ = -1;  // -1: the host
  Vocabulary no_text_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_LOADED_MODEL_H_
