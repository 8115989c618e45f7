// Seeded mutations of good files: whatever the bytes say, opening ends with a status, and what was
// opened reads with a status.
#include <algorithm>
#include <random>
#include <string>

#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/hf_config.h"
#include "engine/model/model_loader.h"
#include "engine/model/safetensors.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

// Changes a few places near the head, where the structure is: bytes, whole words, length.
std::string Mutate(std::string bytes, size_t head, std::mt19937_64& random) {
  static constexpr uint64_t kWords[] = {
      0, 1, 31, 255, 1ull << 31, 1ull << 32, 1ull << 62, 1ull << 63, ~0ull, ~0ull >> 1, ~0ull - 7};
  head = std::min(head, bytes.size());
  const int changes = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % std::min(head, bytes.size());
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2: {
        const std::string word = Raw(kWords[random() % std::size(kWords)]);
        bytes.replace(at, std::min<size_t>(8, bytes.size() - at), word);
        break;
      }
      case 3:
        bytes.erase(at, 1 + random() % 16);
        break;
      case 4:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 32));
        break;
      default:
        bytes.resize(random() % 2 == 0 ? at
                                       : bytes.size() - random() % std::min(bytes.size(), head));
    }
  }
  return bytes;
}

void ReadSome(const RowSource* source) {
  if (source == nullptr || source->rows() == 0) return;
  std::vector<float> out(static_cast<size_t>(source->cols()));
  (void)source->Read(source->rows() - 1, 1, out.data());
}

TEST(ModelFileFuzz, Safetensors) {
  TempDir dir;
  EditableSafetensors good;
  good.tensors["a"] = {"F32", {2, 3}, std::string(24, '\1')};
  good.tensors["b"] = {"BF16", {4}, std::string(8, '\1')};
  good.tensors["c"] = {"U8", {}, "x"};
  const std::string bytes = good.Bytes();
  std::mt19937_64 random(1);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string path = dir.Write("model.safetensors", Mutate(bytes, 400, random));
    const auto file = OpenSafetensors(path);
    if (!file.ok()) continue;
    ++opened;
    for (const auto& tensor : file->tensors) {
      ASSERT_LE(tensor.offset + tensor.bytes, file->file->size_bytes());
    }
  }
  EXPECT_LT(opened, 1500);
}

TEST(ModelFileFuzz, Gguf) {
  TempDir dir;
  const std::string bytes = ReadFile(Checkpoint("qwen2_tiny.gguf"));
  std::mt19937_64 random(2);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string path = dir.Write("model.gguf", Mutate(bytes, i % 2 ? 600 : 9000, random));
    const auto model = OpenModel(path, LoadFormat::kAuto, 0);
    if (const auto gguf = OpenGguf(path); gguf.ok()) (void)ReadGgufVocabulary(*gguf);
    if (!model.ok()) continue;
    ++opened;
    ReadSome(model->token_embedding.get());
    for (const LayerSource& layer : model->layers) {
      ReadSome(layer.qkv_weight.get());
      ReadSome(layer.ffn_down_weight.get());
    }
  }
  EXPECT_LT(opened, 2500);
}

TEST(ModelFileFuzz, Config) {
  std::mt19937_64 random(3);
  for (const char* name : {"gpt2_tiny", "llama3_tiny", "qwen3_tiny"}) {
    const std::string config = ReadFile(Checkpoint(name) + "/config.json");
    const std::string generation = ReadFile(Checkpoint(name) + "/generation_config.json");
    for (int i = 0; i < 1000; ++i) {
      (void)ParseHuggingFaceConfig(Mutate(config, 1000, random), generation, "dir");
      (void)ParseHuggingFaceConfig(config, Mutate(generation, 200, random), "dir");
    }
  }
}

}  // namespace
}  // namespace rally
