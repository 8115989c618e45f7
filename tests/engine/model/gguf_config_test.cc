#include "engine/model/gguf_config.h"

#include <cmath>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class GgufConfig : public testing::Test {
 protected:
  void SetUp() override {
    auto file = OpenGguf(Checkpoint("llama_tiny.gguf"));
    ASSERT_TRUE(file.ok()) << file.status();
    gguf_ = *std::move(file);
  }
  ModelConfig Good() {
    const auto config = ReadGgufConfig(gguf_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : ModelConfig();
  }
  // The message with `key` set to `value`, which is put back.
  std::string Error(const std::string& key, const json& value) {
    const json before = gguf_.metadata;
    gguf_.metadata[key] = value;
    const auto config = ReadGgufConfig(gguf_);
    gguf_.metadata = before;
    EXPECT_FALSE(config.ok()) << key << " = " << value;
    return config.ok() ? "" : std::string(config.status().message());
  }

  GgufFile gguf_;
};

TEST_F(GgufConfig, ReadsLlama) {
  const ModelConfig config = Good();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.width, 40);
  EXPECT_EQ(config.ffn_width, 96);
  EXPECT_EQ(config.q_heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocab_size, 288);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_FALSE(config.tied_head || config.qkv_bias || config.ffn_bias);
  EXPECT_NEAR(config.inv_freq[1], std::pow(10000.0, -1.0 / 8), 1e-6);
  EXPECT_THAT(config.attention_scale, Each(0.25f));
  EXPECT_THAT(config.eos_ids, ElementsAre(287));
  EXPECT_EQ(config.bos_id, 286);
}

TEST_F(GgufConfig, RefusesByKey) {
  const std::pair<const char*, json> keys[] = {
      {"general.architecture", "mamba"},
      {"general.architecture", 5},
      {"general.type", "adapter"},
      {"split.count", 2},
      {"llama.block_count", 0},
      {"llama.block_count", -1},
      {"llama.embedding_length", 1 << 20},
      {"llama.attention.head_count", json::array({4, 4})},
      {"llama.attention.head_count_kv", 3},
      {"llama.attention.key_length", 300},
      {"llama.attention.value_length", 8},
      {"llama.attention.causal", false},
      {"llama.attention.layer_norm_rms_epsilon", nullptr},
      {"llama.attention.scale", 0.5},
      {"llama.attention.sliding_window", 4096},
      {"llama.expert_count", 8},
      {"llama.logit_scale", 0.1},
      {"llama.rope.dimension_count", 8},
      {"llama.rope.freq_base", 0},
      {"llama.rope.scaling.type", "yarn"},
      {"llama.rope.scaling.factor", -1},
      {"llama.rope.scaling.attn_factor", 1.2},
      {"llama.some_future_switch", true},
      {"llama.vocab_size", 287},
      {"tokenizer.ggml.eos_token_id", 288},
      {"tokenizer.ggml.bos_token_id", -1},
  };
  for (const auto& [key, value] : keys) {
    const std::string message = Error(key, value);
    EXPECT_THAT(message, HasSubstr("llama_tiny.gguf")) << key;
    if (std::string(key) != "llama.attention.head_count_kv") {
      EXPECT_THAT(message, HasSubstr(key)) << value;
    }
  }
}

TEST_F(GgufConfig, LinearScalingAndItsOlderName) {
  const std::vector<float> plain = Good().inv_freq;
  gguf_.metadata["llama.rope.scale_linear"] = 2.0;
  EXPECT_FLOAT_EQ(Good().inv_freq[3], plain[3] / 2);
  gguf_.metadata["llama.rope.scaling.type"] = "linear";
  gguf_.metadata["llama.rope.scaling.factor"] = 4.0;
  EXPECT_FLOAT_EQ(Good().inv_freq[3], plain[3] / 4);
  gguf_.metadata["llama.rope.scaling.type"] = "none";
  EXPECT_FLOAT_EQ(Good().inv_freq[3], plain[3]);
}

TEST_F(GgufConfig, EndIdsOfTextTurnAndMessage) {
  gguf_.metadata["tokenizer.ggml.eot_token_id"] = 3;
  gguf_.metadata["tokenizer.ggml.eom_token_id"] = 287;
  EXPECT_THAT(Good().eos_ids, ElementsAre(287, 3));
}

// Llama 3.1: the converter stores what divides each frequency.
TEST(GgufRopeFactors, DivideTheFrequencies) {
  GgufBytes bytes;
  bytes.AddString("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"block_count", 1},
                                   {"context_length", 64},
                                   {"embedding_length", 16},
                                   {"feed_forward_length", 8},
                                   {"attention.head_count", 2}}) {
    bytes.AddU32(std::string("llama.") + key, value);
  }
  bytes.AddF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  bytes.AddTensor("rope_freqs.weight", {4}, 0, 0);
  bytes.AddTensor("token_embd.weight", {16, 1}, 0, 32);
  const auto read = [&](const std::vector<float>& factors) -> absl::StatusOr<ModelConfig> {
    TempDir dir;
    std::string data = RawFloats(factors);
    data.resize(32 + 64);
    const auto gguf = OpenGguf(dir.Write("m.gguf", bytes.Bytes(data)));
    if (!gguf.ok()) return gguf.status();
    return ReadGgufConfig(*gguf);
  };
  const auto config = read({1, 2, 4, 8});
  ASSERT_TRUE(config.ok()) << config.status();
  for (int i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(config->inv_freq[i], std::pow(10000.0, -i / 4.0) / (1 << i));
  }
  EXPECT_TRUE(config->tied_head);
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY}) {
    EXPECT_THAT(std::string(read({1, 1, bad, 1}).status().message()), HasSubstr("rope_freqs"));
  }
}

TEST_F(GgufConfig, ReadsVocabulary) {
  const auto vocabulary = ReadGgufVocabulary(gguf_);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre, "gpt-2");
  EXPECT_EQ(vocabulary->tokens.size(), 288u);
  EXPECT_EQ(vocabulary->tokens[256], "Ġt");
  EXPECT_EQ(vocabulary->token_types[287], 3);
  EXPECT_EQ(vocabulary->merges.size(), 30u);
  EXPECT_EQ(vocabulary->merges[1], "h e");
  EXPECT_TRUE(vocabulary->scores.empty());
  EXPECT_EQ(vocabulary->bos_id, 286);
  EXPECT_EQ(vocabulary->eos_id, 287);
  EXPECT_EQ(vocabulary->unknown_id, -1);
  EXPECT_TRUE(vocabulary->has_add_bos);
  EXPECT_FALSE(vocabulary->add_bos || vocabulary->has_add_space_prefix);
  const std::pair<const char*, json> bad[] = {
      {"tokenizer.ggml.model", nullptr},      {"tokenizer.ggml.tokens", 5},
      {"tokenizer.ggml.tokens", {"a", 1}},    {"tokenizer.ggml.scores", {"a"}},
      {"tokenizer.ggml.token_type", {1.5}},   {"tokenizer.ggml.merges", {1}},
      {"tokenizer.ggml.bos_token_id", "one"}, {"tokenizer.ggml.add_bos_token", 1},
  };
  for (const auto& [key, value] : bad) {
    const json before = gguf_.metadata;
    gguf_.metadata[key] = value;
    EXPECT_THAT(std::string(ReadGgufVocabulary(gguf_).status().message()), HasSubstr(key));
    gguf_.metadata = before;
  }
}

}  // namespace
}  // namespace rally
