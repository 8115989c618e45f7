#include "server/serving_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "engine/text/gguf_vocabulary.h"
#include "engine/text/load_tokenizer.h"
#include "engine/text/tiktoken_file.h"
#include "server/devices.h"
#include "spdlog/spdlog.h"

namespace rally {
namespace {

// Dummy weights are the same in every rank and every run.
constexpr uint64_t kDummySeed = 1;

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".gguf") {
    RALLY_ASSIGN_OR_RETURN(const GgufFile gguf, OpenGguf(path));
    RALLY_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, ReadGgufVocabulary(gguf));
    return MakeGgufTokenizer(vocabulary);
  }
  if (extension == ".tiktoken") return LoadTiktokenFile(path);
  return LoadTokenizerFromDirectory(path);
}

// "/models/SmolLM2.gguf" and "/models/SmolLM2/" are both SmolLM2.
std::string NameOf(const std::string& path) {
  std::filesystem::path name = path;
  if (!name.has_filename()) name = name.parent_path();
  return name.extension() == ".gguf" ? name.stem() : name.filename();
}

// Generation ends with an id of any file that names one.
std::vector<int32_t> EosIds(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = config.eos_ids;
  ids.insert(ids.end(), tokenizer.eos_ids().begin(), tokenizer.eos_ids().end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

absl::Status CheckFits(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (tokenizer.vocabulary().size() <= config.vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--tokenizer: it has ",
                                                 tokenizer.vocabulary().size(),
                                                 " ids, the model only ", config.vocab_size));
}

LoadProgress LogProgress(const std::string& device) {
  return [device](int32_t done, int32_t total) {
    if (done == total) spdlog::info("{}: {} matrices loaded", device, total);
  };
}

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

void LogMemory(const Engine& engine, int32_t block_tokens) {
  const EngineMemory m = engine.memory();
  spdlog::info(
      "{}: reserves {:.0f} MB: model {:.0f} MB, KV pool {:.0f} MB (at most {} tokens in blocks of "
      "{}), step buffers {:.1f} MB",
      engine.device_name(), Megabytes(m.model_bytes + m.kv_pool_bytes + m.step_bytes),
      Megabytes(m.model_bytes), Megabytes(m.kv_pool_bytes), m.kv_pool_tokens, block_tokens,
      Megabytes(m.step_bytes));
}

absl::Status ExplainWeights(const absl::Status& status, DType dtype) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat("weights in ", std::string(DTypeName(dtype)), ": ", status.message(), "; take ",
                   dtype == DType::kF32 ? "--dtype bf16 or " : "", "a smaller model"));
}

absl::StatusOr<std::unique_ptr<Engine>> StartEngine(const ServerConfig& config,
                                                    std::unique_ptr<Device> device, DType dtype,
                                                    ModelSource source,
                                                    const ServingModel& serving) {
  auto model = Transformer::Create(*device, std::move(source), dtype, LogProgress(device->name()));
  if (!model.ok()) return ExplainWeights(model.status(), dtype);
  EngineConfig engine = config.engine;
  engine.eos_ids = serving.config.eos_ids;
  RALLY_ASSIGN_OR_RETURN(auto started, Engine::Create(engine, std::move(device), *std::move(model),
                                                      &serving.tokenizer->vocabulary()));
  LogMemory(*started, engine.kv_block_tokens);
  return started;
}

absl::StatusOr<ModelSource> OpenSource(const ServerConfig& config) {
  const LoadFormat format = config.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  return OpenModel(config.model, format, kDummySeed);
}

}  // namespace

absl::StatusOr<ServingModel> LoadServingModel(const ServerConfig& config) {
  ServingModel serving;
  serving.name = config.model_name.empty() ? NameOf(config.model) : config.model_name;
  RALLY_ASSIGN_OR_RETURN(DeviceRanks ranks, OpenDevices(config.devices));
  RALLY_ASSIGN_OR_RETURN(const DType dtype, ComputeType(config.dtype, ranks.kind));
  RALLY_ASSIGN_OR_RETURN(ModelSource source, OpenSource(config));
  RALLY_ASSIGN_OR_RETURN(serving.tokenizer,
                         LoadTokenizer(config.tokenizer.empty() ? config.model : config.tokenizer));
  RALLY_RETURN_IF_ERROR(CheckFits(*serving.tokenizer, source.config));
  serving.config = source.config;
  serving.config.eos_ids = EosIds(source.config, *serving.tokenizer);
  for (std::unique_ptr<Device>& device : ranks.devices) {
    // Loading consumes a source, so each rank opens its own.
    if (!serving.engines.empty()) {
      RALLY_ASSIGN_OR_RETURN(source, OpenSource(config));
    }
    RALLY_ASSIGN_OR_RETURN(
        serving.engines.emplace_back(),
        StartEngine(config, std::move(device), dtype, std::move(source), serving));
  }
  spdlog::info("{}: {}, compute type {}, vocabulary {}, context {}, end ids [{}]", serving.name,
               serving.config.architecture, std::string(DTypeName(dtype)),
               serving.config.vocab_size, serving.engines.front()->context_tokens(),
               absl::StrJoin(serving.config.eos_ids, ", "));
  return serving;
}

}  // namespace rally
