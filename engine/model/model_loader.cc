#include "engine/model/model_loader.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/dummy_source.h"
#include "engine/model/gguf_config.h"
#include "engine/model/gguf_source.h"
#include "engine/model/hf_config.h"
#include "engine/model/hf_source.h"

namespace rally {
namespace {

absl::StatusOr<ModelConfig> ReadConfig(const std::string& path, bool directory) {
  if (directory) return ReadHuggingFaceConfig(path);
  RALLY_ASSIGN_OR_RETURN(const GgufFile gguf, OpenGguf(path));
  return ReadGgufConfig(gguf);
}

}  // namespace

absl::StatusOr<ModelSource> OpenModel(const std::string& path, LoadFormat format,
                                      uint64_t dummy_seed) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool directory = fs::is_directory(path, error);
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("model ", path, ": no such file or directory"));
  }
  if (directory && !fs::exists(fs::path(path) / "config.json", error)) {
    return absl::NotFoundError(absl::StrCat("model ", path, ": no config.json in this directory"));
  }
  if (!directory && !absl::EndsWith(path, ".gguf")) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", path, ": neither a directory nor a .gguf file"));
  }
  if (format == LoadFormat::kDummy) {
    RALLY_ASSIGN_OR_RETURN(const ModelConfig config, ReadConfig(path, directory));
    return MakeDummyModel(config, dummy_seed);
  }
  return directory ? OpenHuggingFaceModel(path) : OpenGgufModel(path);
}

}  // namespace rally
