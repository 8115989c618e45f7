#include "tests/engine/model/model_files.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace rally {

TempDir::TempDir() {
  // In memory where there is such a place: the fuzz tests write thousands of files.
  const bool memory = access("/dev/shm", W_OK) == 0;
  std::string path =
      (memory ? std::string("/dev/shm") : testing::TempDir()) + "/rally_model_XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  path_ = path;
}

TempDir::~TempDir() { std::filesystem::remove_all(path_); }

std::string TempDir::Write(const std::string& name, std::string_view bytes) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<int64_t>(bytes.size()));
  return path;
}

void TempDir::CopyFrom(const std::string& directory) const {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::filesystem::copy(entry.path(), path_);
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FixturePath(const std::string& name) {
  return std::string(RALLY_SOURCE_DIR) + "/tests/fixtures/" + name;
}

std::string Checkpoint(const std::string& name) { return FixturePath("checkpoints/" + name); }

std::string RawFloats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::string SafetensorsBytes(const std::string& header, std::string_view data) {
  return Raw(uint64_t{header.size()}) + header + std::string(data);
}

EditableSafetensors EditableSafetensors::Read(const std::string& path) {
  const std::string bytes = ReadFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EditableSafetensors file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    file.tensors[name] = {entry["dtype"], entry["shape"],
                          bytes.substr(8 + length + begin, end - begin)};
  }
  return file;
}

std::string EditableSafetensors::Bytes() const {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return SafetensorsBytes(header.dump(), data);
}

std::string GgufString(const std::string& text) { return Raw(uint64_t{text.size()}) + text; }

void GgufBytes::Add(const std::string& key, uint32_t type, std::string_view value) {
  metadata_ += GgufString(key) + Raw(type) + std::string(value);
  ++metadata_count;
}

void GgufBytes::AddString(const std::string& key, const std::string& value) {
  Add(key, 8, GgufString(value));
}

void GgufBytes::AddTensor(const std::string& name, const std::vector<uint64_t>& file_dims,
                          uint32_t type, uint64_t offset) {
  tensors_ += GgufString(name) + Raw(static_cast<uint32_t>(file_dims.size()));
  for (const uint64_t dim : file_dims) tensors_ += Raw(dim);
  tensors_ += Raw(type) + Raw(offset);
  ++tensor_count;
}

std::string GgufBytes::Bytes(std::string_view data, uint32_t version) const {
  std::string bytes = "GGUF" + Raw(version) + Raw(tensor_count) + Raw(metadata_count);
  bytes += metadata_ + tensors_;
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + std::string(data);
}

std::vector<float> ReadAll(const RowSource& source) {
  std::vector<float> values(static_cast<size_t>(source.rows() * source.cols()));
  const absl::Status status = source.Read(0, source.rows(), values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

}  // namespace rally
