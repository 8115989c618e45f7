#include "tests/bench/soak/soak_engine.h"

#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "engine/scheduler.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/host_device.h"

namespace rally {
namespace {

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const SoakOptions& options) {
  if (options.device == "cuda") return NewCudaDevice({});
  return NewHostDevice({.threads = options.threads});
}

// Few letters, so that random stop strings are met.
std::unique_ptr<Vocabulary> Letters(int32_t size) {
  std::vector<Vocabulary::Token> tokens(static_cast<size_t>(size));
  for (int32_t id = 0; id < size; ++id) {
    for (int32_t i = 0; i <= id % 3; ++i) {
      tokens[id].bytes += static_cast<char>('a' + (id + i * 7) % 5);
    }
  }
  return std::make_unique<Vocabulary>(std::move(tokens));
}

DType TypeOf(const std::string& dtype) {
  return dtype == "fp32" ? DType::kF32 : dtype == "fp16" ? DType::kF16 : DType::kBF16;
}

// By default a shortage, so that rows are preempted and prompts wait.
int64_t PoolBytes(const SoakOptions& options, const Transformer& model) {
  constexpr int32_t kPositionsPerRow = 24;
  const EngineConfig& config = options.engine;
  const int64_t blocks =
      options.kv_blocks > 0
          ? options.kv_blocks
          : int64_t{config.max_rows} * BlocksFor(kPositionsPerRow, config.kv_block_tokens);
  return (blocks + 1) * model.KvBlockBytes(config.kv_block_tokens);
}

}  // namespace

absl::StatusOr<SoakEngine> StartSoakEngine(const SoakOptions& options, StepObserver* observer) {
  RALLY_ASSIGN_OR_RETURN(auto device, OpenDevice(options));
  const LoadFormat format = options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  RALLY_ASSIGN_OR_RETURN(ModelSource source, OpenModel(options.model, format, options.seed));
  EngineConfig config = options.engine;
  SoakEngine started;
  started.vocabulary = Letters(source.config.vocab_size);
  config.eos_ids = {0};
  RALLY_ASSIGN_OR_RETURN(auto model,
                         Transformer::Create(*device, std::move(source), TypeOf(options.dtype)));
  config.kv_pool_bytes = PoolBytes(options, *model);
  RALLY_ASSIGN_OR_RETURN(started.engine, Engine::Create(config, std::move(device), std::move(model),
                                                        started.vocabulary.get(), observer));
  return started;
}

}  // namespace rally
