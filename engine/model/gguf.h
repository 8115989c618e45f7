// The GGUF format, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
// metadata, tensor infos, tensor data. Nothing in the file is trusted.
#ifndef RALLY_ENGINE_MODEL_GGUF_H_
#define RALLY_ENGINE_MODEL_GGUF_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/input_file.h"
#include "engine/model/gguf_types.h"
#include "nlohmann/json.hpp"

namespace rally {

struct GgufTensor {
  std::string name;
  const GgufType* type = nullptr;
  std::vector<int64_t> shape;  // row-major, outermost first (the file has it the other way round)
  uint64_t offset = 0;         // in the file
  uint64_t bytes = 0;
};

struct GgufFile {
  std::shared_ptr<const InputFile> file;
  // An object from the full keys ("llama.block_count") to their values. Strings are the bytes of
  // the file, which need not be UTF-8: do not dump it.
  nlohmann::json metadata;
  std::vector<GgufTensor> tensors;  // by offset; none overlap, all lie in the file
};

absl::StatusOr<GgufFile> OpenGguf(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_H_
