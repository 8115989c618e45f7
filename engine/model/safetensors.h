// The safetensors format (https://github.com/huggingface/safetensors): u64 header length, JSON
// header, tensor data. Nothing in the file is trusted.
#ifndef RALLY_ENGINE_MODEL_SAFETENSORS_H_
#define RALLY_ENGINE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/input_file.h"

namespace rally {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;           // as the format names it: "F32", "BF16", ...
  std::vector<int64_t> shape;  // may be empty (a scalar) or hold zeros
  uint64_t offset = 0;         // in the file
  uint64_t bytes = 0;
};

struct SafetensorsFile {
  std::shared_ptr<const InputFile> file;
  std::vector<SafetensorsTensor> tensors;  // by offset; they tile the data section exactly
};

absl::StatusOr<SafetensorsFile> OpenSafetensors(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_SAFETENSORS_H_
