#include "engine/model/model_loader.h"

#include <cmath>
#include <filesystem>
#include <string>

#include "engine/model/row_sources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ModelSource> Open(const std::string& path) {
  return OpenModel(path, LoadFormat::kAuto, 0);
}

std::string Message(const absl::StatusOr<ModelSource>& model) {
  return std::string(model.status().message());
}

TEST(OpenModel, RefusesPaths) {
  TempDir dir;
  EXPECT_EQ(Open(dir.path() + "/nowhere").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(Open(dir.path())), HasSubstr("no config.json"));
  EXPECT_THAT(Message(Open(dir.Write("model.bin", "x"))), HasSubstr("neither a directory nor"));
  EXPECT_THAT(Message(Open(dir.Write("model.gguf", "x"))), HasSubstr("model.gguf"));
  std::filesystem::create_directory(dir.path() + "/folder.gguf");
  EXPECT_THAT(Message(Open(dir.path() + "/folder.gguf")), HasSubstr("no config.json"));
}

TEST(OpenModel, ShapesOfEveryFixture) {
  for (const char* name : {"gpt2_tiny", "llama_tiny", "llama3_tiny", "qwen2_tiny", "qwen3_tiny",
                           "qwen2_tiny_sharded", "llama_tiny.gguf", "qwen2_tiny.gguf"}) {
    const auto model = Open(Checkpoint(name));
    ASSERT_TRUE(model.ok()) << model.status();
    const ModelConfig& c = model->config;
    EXPECT_EQ(model->token_embedding->rows(), c.vocab_size);
    EXPECT_EQ(model->head_weight->cols(), c.width);
    EXPECT_EQ(model->position_embedding != nullptr, c.learned_positions);
    ASSERT_EQ(model->layers.size(), static_cast<size_t>(c.layers));
    for (const LayerSource& layer : model->layers) {
      EXPECT_EQ(layer.qkv_weight->rows(), c.qkv_width());
      EXPECT_EQ(layer.qkv_weight->cols(), c.width);
      EXPECT_EQ(layer.qkv_bias != nullptr, c.qkv_bias) << name;
      EXPECT_EQ(layer.q_norm_weight != nullptr, c.qk_norm) << name;
      EXPECT_EQ(layer.attention_output_weight->cols(), c.q_width());
      EXPECT_EQ(layer.ffn_up_weight->rows(), c.gated ? 2 * c.ffn_width : c.ffn_width);
      EXPECT_EQ(layer.ffn_down_weight->cols(), c.ffn_width);
      EXPECT_EQ(layer.attention_norm_bias != nullptr, c.norm == NormKind::kLayerNorm);
    }
  }
}

TEST(OpenModel, FixtureEndIdsAndSampling) {
  const auto model = Open(Checkpoint("llama_tiny"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->config.eos_ids, ElementsAre(287, 286));
  EXPECT_FLOAT_EQ(model->config.temperature, 0.7f);
  EXPECT_EQ(model->config.top_k, 40);
}

// A copy of a fixture whose tensors a test changes.
class ChangedModel : public testing::Test {
 protected:
  void Copy(const std::string& name) {
    dir_.CopyFrom(Checkpoint(name));
    file_ = EditableSafetensors::Read(dir_.path() + "/model.safetensors");
  }
  absl::StatusOr<ModelSource> Reopen() {
    dir_.Write("model.safetensors", file_.Bytes());
    return Open(dir_.path());
  }
  void SetConfig(const std::string& field, const json& value) {
    json config = json::parse(ReadFile(dir_.path() + "/config.json"));
    config[field] = value;
    dir_.Write("config.json", config.dump());
  }

  TempDir dir_;
  EditableSafetensors file_;
};

TEST_F(ChangedModel, EachMissingTensorIsNamed) {
  for (const char* name : {"gpt2_tiny", "qwen2_tiny", "qwen3_tiny"}) {
    const EditableSafetensors whole =
        EditableSafetensors::Read(Checkpoint(name) + "/model.safetensors");
    TempDir dir;
    dir.CopyFrom(Checkpoint(name));
    for (const auto& [tensor, content] : whole.tensors) {
      EditableSafetensors less = whole;
      less.tensors.erase(tensor);
      dir.Write("model.safetensors", less.Bytes());
      EXPECT_THAT(Message(Open(dir.path())), HasSubstr("'" + tensor + "' is missing"));
    }
  }
}

TEST_F(ChangedModel, UnknownTensorIsNamed) {
  Copy("llama_tiny");
  file_.tensors["model.layers.2.mlp.up_proj.weight"] = {"F32", {1}, Raw(0.0f)};
  EXPECT_THAT(Message(Reopen()), HasSubstr("does not know: model.layers.2.mlp.up_proj.weight"));
  // A bias that the configuration does not have would change the result.
  file_.tensors.erase("model.layers.2.mlp.up_proj.weight");
  file_.tensors["model.layers.0.self_attn.q_proj.bias"] = {"F32", {64}, std::string(256, '\0')};
  EXPECT_THAT(Message(Reopen()), HasSubstr("q_proj.bias"));
}

TEST_F(ChangedModel, WrongShapeIsNamed) {
  Copy("gpt2_tiny");
  auto& tensor = file_.tensors["transformer.h.1.mlp.c_fc.weight"];
  std::swap(tensor.shape[0], tensor.shape[1]);
  EXPECT_THAT(Message(Reopen()),
              testing::AllOf(HasSubstr("h.1.mlp.c_fc.weight' has shape [80, 48]"),
                             HasSubstr("asks for [48, 80]")));
}

TEST_F(ChangedModel, BareGpt2NamesAndStoredMasks) {
  Copy("gpt2_tiny");
  EditableSafetensors bare;
  for (const auto& [name, tensor] : file_.tensors) {
    bare.tensors[name.substr(std::string("transformer.").size())] = tensor;
  }
  const auto prefixed = Reopen();
  ASSERT_TRUE(prefixed.ok()) << prefixed.status();
  const std::vector<float> bias = ReadAll(*prefixed->layers[1].qkv_bias);
  for (const std::string prefix : {"transformer.", ""}) {
    if (prefix.empty()) file_ = bare;
    for (const std::string layer : {"h.0.", "h.1."}) {
      file_.tensors[prefix + layer + "attn.bias"] = {"BOOL", {1, 1, 2, 2}, std::string(4, '\1')};
      file_.tensors[prefix + layer + "attn.masked_bias"] = {"F32", {}, Raw(-1e4f)};
    }
    const auto model = Reopen();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(ReadAll(*model->layers[1].qkv_bias), bias);
  }
  file_.tensors["h.2.attn.bias"] = {"BOOL", {1}, "\1"};  // there is no layer 2
  EXPECT_THAT(Message(Reopen()), HasSubstr("h.2.attn.bias"));
}

TEST_F(ChangedModel, TiedHeadThatIsStored) {
  Copy("qwen2_tiny");
  const auto& embedding = file_.tensors["model.embed_tokens.weight"];
  file_.tensors["lm_head.weight"] = embedding;
  auto model = Reopen();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->config.tied_head);

  // As transformers 5: what is stored and differs is not tied.
  file_.tensors["lm_head.weight"].bytes.replace(4, 4, Raw(123.0f));
  model = Reopen();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->config.tied_head);
  EXPECT_EQ(ReadAll(*model->head_weight)[1], 123.0f);
  EXPECT_NE(ReadAll(*model->token_embedding)[1], 123.0f);

  file_.tensors.erase("lm_head.weight");
  SetConfig("tie_word_embeddings", false);
  EXPECT_THAT(Message(Reopen()), HasSubstr("'lm_head.weight' is missing"));
}

TEST_F(ChangedModel, DirectoryWithAStrayFormat) {
  Copy("llama_tiny");
  dir_.Write("pytorch_model.bin", "pickle");
  EXPECT_TRUE(Reopen().ok());
  std::filesystem::remove(dir_.path() + "/model.safetensors");
  EXPECT_THAT(Message(Open(dir_.path())), HasSubstr("'model.safetensors' is missing"));
}

// What the GGUF and the safetensors file of one architecture have in common is the order of rows.
TEST(OpenModel, ShardedModelHoldsTheSameWeights) {
  const auto one = Open(Checkpoint("qwen2_tiny")), two = Open(Checkpoint("qwen2_tiny_sharded"));
  ASSERT_TRUE(one.ok() && two.ok());
  for (size_t i = 0; i < one->layers.size(); ++i) {
    EXPECT_TRUE(*SameRows(*one->layers[i].qkv_weight, *two->layers[i].qkv_weight));
    EXPECT_TRUE(*SameRows(*one->layers[i].ffn_up_weight, *two->layers[i].ffn_up_weight));
    EXPECT_TRUE(*SameRows(*one->layers[i].ffn_down_weight, *two->layers[i].ffn_down_weight));
  }
  EXPECT_TRUE(*SameRows(*one->token_embedding, *two->token_embedding));
}

TEST(DummyModel, NeedsOnlyTheConfigurationAndIsSeeded) {
  TempDir dir;
  dir.Write("config.json", ReadFile(Checkpoint("gpt2_tiny") + "/config.json"));
  const auto a = OpenModel(dir.path(), LoadFormat::kDummy, 7);
  const auto b = OpenModel(dir.path(), LoadFormat::kDummy, 7);
  const auto c = OpenModel(dir.path(), LoadFormat::kDummy, 8);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok()) << a.status();
  const std::vector<float> values = ReadAll(*a->token_embedding);
  EXPECT_EQ(values, ReadAll(*b->token_embedding));
  EXPECT_NE(values, ReadAll(*c->token_embedding));
  EXPECT_NE(ReadAll(*a->layers[0].qkv_weight), ReadAll(*a->layers[1].qkv_weight));
  double sum = 0, squares = 0;
  for (const float v : values) {
    sum += v;
    squares += v * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.001);
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.001);
  // Any row can be made alone.
  std::vector<float> row(48);
  ASSERT_TRUE(a->token_embedding->Read(17, 1, row.data()).ok());
  EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin() + 17 * 48));
  EXPECT_THAT(ReadAll(*a->final_norm_weight), testing::Each(1.0f));
}

TEST(DummyModel, TakesTheConfigurationOfAGguf) {
  const auto model = OpenModel(Checkpoint("qwen2_tiny.gguf"), LoadFormat::kDummy, 1);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers.size(), 2u);
  EXPECT_EQ(model->config.architecture, "qwen2");
}

}  // namespace
}  // namespace rally
