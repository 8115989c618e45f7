#include "tests/bench/decode/loaded_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/model_loader.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "tests/bench/decode/read_bandwidth.h"
#include "tests/bench/machine_limits.h"

namespace rally {
namespace {

constexpr uint64_t kDummySeed = 1;
constexpr size_t kReadBytes = size_t{4} << 30;  // many times what any cache holds

class LentDevice final : public Device {
 public:
  explicit LentDevice(Device* device) : device_(device) {}
  std::string name() const override { return device_->name(); }
  const OpTable& ops() const override { return device_->ops(); }
  bool wants_tight_shapes() const override { return device_->wants_tight_shapes(); }
  DeviceMemory memory() const override { return device_->memory(); }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override { return device_->NewStream(); }
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override { return device_->NewEvent(); }
  absl::StatusOr<std::unique_ptr<Event>> NewTimedEvent() override {
    return device_->NewTimedEvent();
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes) override {
    return device_->Allocate(space, bytes);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) override {
    return device_->Reserve(bytes, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 const std::function<void()>& record) override {
    return device_->Capture(stream, record);
  }
  absl::Status Sync(Stream& stream) override { return device_->Sync(stream); }
  absl::Status status() const override { return device_->status(); }
  int64_t ClockNanos() const override { return device_->ClockNanos(); }
  int64_t clock_tick_ns() const override { return device_->clock_tick_ns(); }

 private:
  Device* const device_;
};

class LentModel final : public DecoderModel {
 public:
  explicit LentModel(Transformer* model) : model_(model) {}
  int64_t KvBlockBytes(int32_t block_tokens) const override {
    return model_->KvBlockBytes(block_tokens);
  }
  int32_t context_length() const override { return model_->context_length(); }
  int32_t vocab_size() const override { return model_->vocab_size(); }
  int64_t resident_bytes() const override { return model_->resident_bytes(); }
  absl::Status Prepare(const StepLimits& limits, int32_t block_tokens) override {
    return model_->Prepare(limits, block_tokens);
  }
  void Forward(Stream& stream, const StepTensors& step, const StepShape& shape) override {
    model_->Forward(stream, step, shape);
  }

 private:
  Transformer* const model_;
};

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const BenchOptions& options, int cuda_ordinal) {
  if (cuda_ordinal >= 0) return NewCudaDevice({.ordinal = cuda_ordinal});
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return NewHostDevice({.threads = options.threads > 0 ? options.threads : std::max(1, cores)});
}

absl::StatusOr<DType> ComputeType(const std::string& name, bool cuda) {
  if (name == "fp32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  if (name == "auto") return cuda || HostHasBf16() ? DType::kBF16 : DType::kF32;
  if (cuda) return DType::kF16;
  return absl::InvalidArgumentError("--dtype: fp16 is computed on GPUs only");
}

std::string NameOf(const std::string& path) {
  std::filesystem::path name = path;
  if (!name.has_filename()) name = name.parent_path();
  return name.extension() == ".gguf" ? name.stem() : name.filename();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const BenchOptions& options) {
  std::unique_ptr<LoadedModel> loaded(new LoadedModel);
  const bool dummy = options.model.empty();
  const std::string& path = dummy ? options.config : options.model;
  loaded->name_ = NameOf(path);
  if (options.device != "host") loaded->cuda_ordinal_ = std::atoi(options.device.c_str() + 5);
  RALLY_ASSIGN_OR_RETURN(loaded->dtype_, ComputeType(options.dtype, loaded->cuda_ordinal_ >= 0));
  RALLY_ASSIGN_OR_RETURN(loaded->device_, OpenDevice(options, loaded->cuda_ordinal_));
  RALLY_ASSIGN_OR_RETURN(
      ModelSource source,
      OpenModel(path, dummy ? LoadFormat::kDummy : LoadFormat::kAuto, kDummySeed));
  RALLY_ASSIGN_OR_RETURN(loaded->model_,
                         Transformer::Create(*loaded->device_, std::move(source), loaded->dtype_));
  return loaded;
}

absl::StatusOr<std::unique_ptr<Engine>> LoadedModel::StartEngine(const EngineConfig& config,
                                                                 StepObserver* observer) {
  return Engine::Create(config, std::make_unique<LentDevice>(device_.get()),
                        std::make_unique<LentModel>(model_.get()), &no_text_, observer);
}

absl::StatusOr<double> LoadedModel::ReadBandwidth() {
  if (cuda_ordinal_ >= 0) return CudaReadBandwidth(cuda_ordinal_, kReadBytes);
  RALLY_ASSIGN_OR_RETURN(const auto stream, device_->NewStream());
  return OnDeviceThread(*device_, *stream, rally::ReadBandwidth);
}

double LoadedModel::weight_bytes() const {
  return StepParameters(config()) * static_cast<double>(DTypeBytes(dtype_));
}

double LoadedModel::kv_bytes_per_token() const {
  constexpr int32_t kTokens = 1024;
  return static_cast<double>(model_->KvBlockBytes(kTokens)) / kTokens;
}

}  // namespace rally
