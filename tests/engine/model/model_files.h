// Model files that tests write: right ones, and ones that lie.
#ifndef RALLY_TESTS_ENGINE_MODEL_MODEL_FILES_H_
#define RALLY_TESTS_ENGINE_MODEL_MODEL_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "nlohmann/json.hpp"

namespace rally {

// A directory that goes with its owner.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, std::string_view bytes) const;
  // Copies the regular files of a directory.
  void CopyFrom(const std::string& directory) const;

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
std::string Checkpoint(const std::string& name);  // a path under tests/fixtures/checkpoints
std::string FixturePath(const std::string& name);

template <typename T>
std::string Raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
std::string RawFloats(const std::vector<float>& values);

// The length, the header as JSON, the data.
std::string SafetensorsBytes(const std::string& header, std::string_view data);

// The head and the tensors of a safetensors file, to be changed and written again.
struct EditableSafetensors {
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Tensor> tensors;

  static EditableSafetensors Read(const std::string& path);
  std::string Bytes() const;
};

// A GGUF file field by field, in the order of the calls: metadata first, then tensors.
class GgufBytes {
 public:
  void Add(const std::string& key, uint32_t type, std::string_view value);
  void AddString(const std::string& key, const std::string& value);
  void AddU32(const std::string& key, uint32_t value) { Add(key, 4, Raw(value)); }
  void AddF32(const std::string& key, float value) { Add(key, 6, Raw(value)); }
  void AddTensor(const std::string& name, const std::vector<uint64_t>& file_dims, uint32_t type,
                 uint64_t offset);
  std::string Bytes(std::string_view data, uint32_t version = 3) const;

  uint64_t metadata_count = 0;
  uint64_t tensor_count = 0;

 private:
  std::string metadata_, tensors_;
};

std::string GgufString(const std::string& text);

// All values of a source, row by row.
std::vector<float> ReadAll(const RowSource& source);

}  // namespace rally

#endif  // RALLY_TESTS_ENGINE_MODEL_MODEL_FILES_H_
