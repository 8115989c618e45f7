#include "engine/model/hf_config.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json Llama() {
  return {{"model_type", "llama"},          {"hidden_size", 64},       {"intermediate_size", 128},
          {"num_hidden_layers", 4},         {"vocab_size", 100},       {"num_attention_heads", 4},
          {"max_position_embeddings", 256}, {"num_key_value_heads", 2}};
}

json Of(const std::string& model_type) {
  json config = Llama();
  config["model_type"] = model_type;
  return config;
}

json Gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 64},      {"n_layer", 3},
          {"n_head", 4},          {"n_positions", 32}, {"vocab_size", 100}};
}

absl::StatusOr<ModelConfig> Parse(const json& config, const std::string& generation = "") {
  return ParseHuggingFaceConfig(config.dump(), generation, "dir");
}

ModelConfig Good(const json& config, const std::string& generation = "") {
  const auto parsed = Parse(config, generation);
  EXPECT_TRUE(parsed.ok()) << parsed.status() << config;
  return parsed.ok() ? *parsed : ModelConfig();
}

// `base` with one more field is refused, and the message names file and field.
void ExpectRefused(json base, const std::string& field, const json& value) {
  base[field] = value;
  const auto parsed = Parse(base);
  ASSERT_FALSE(parsed.ok()) << field << " = " << value;
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("dir/config.json: "));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(field)) << value;
}

TEST(HfConfig, LlamaDefaults) {
  const ModelConfig config = Good(Llama());
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.layers, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.rotary_dim, 16);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.norm, NormKind::kRmsNorm);
  EXPECT_FALSE(config.tied_head || config.qkv_bias || config.ffn_bias || config.qk_norm);
  EXPECT_FALSE(config.attention_output_bias || config.learned_positions);
  EXPECT_TRUE(config.gated);
  EXPECT_EQ(config.activation, ActivationKind::kSilu);
  EXPECT_THAT(config.window, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(config.attention_scale, ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
  EXPECT_THAT(config.eos_ids, IsEmpty());
  EXPECT_EQ(config.bos_id, -1);
}

TEST(HfConfig, LlamaOptions) {
  json c = Llama();
  c["num_key_value_heads"] = nullptr;
  c["head_dim"] = 24;
  c["attention_bias"] = true;
  c["mlp_bias"] = true;
  c["tie_word_embeddings"] = true;
  c["rms_norm_eps"] = 1e-5;
  c["hidden_act"] = "gelu";
  c["pretraining_tp"] = 2;
  const ModelConfig config = Good(c);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 24);
  EXPECT_TRUE(config.qkv_bias && config.attention_output_bias && config.ffn_bias);
  EXPECT_TRUE(config.tied_head);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.activation, ActivationKind::kGeluErf);
}

TEST(HfConfig, ArchitecturesDifferInBiasAndNorm) {
  const ModelConfig qwen2 = Good(Of("qwen2"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias || qwen2.qk_norm);
  const ModelConfig qwen3 = Good(Of("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);  // the class's default, not hidden_size / heads
  const ModelConfig mistral = Good(Of("mistral"));
  EXPECT_FALSE(mistral.qkv_bias || mistral.qk_norm);
}

TEST(HfConfig, Gpt2) {
  const ModelConfig plain = Good(Gpt2());
  EXPECT_EQ(plain.ffn_width, 256);
  EXPECT_EQ(plain.context_length, 32);
  EXPECT_EQ(plain.norm, NormKind::kLayerNorm);
  EXPECT_FLOAT_EQ(plain.norm_epsilon, 1e-5f);
  EXPECT_EQ(plain.activation, ActivationKind::kGeluTanh);
  EXPECT_TRUE(plain.learned_positions && plain.tied_head && plain.qkv_bias && plain.ffn_bias);
  EXPECT_FALSE(plain.gated);
  EXPECT_THAT(plain.attention_scale, Each(0.25f));

  json c = Gpt2();
  c["n_inner"] = 96;
  c["activation_function"] = "relu";
  c["layer_norm_epsilon"] = 1e-3;
  c["scale_attn_weights"] = false;
  c["reorder_and_upcast_attn"] = true;
  c["tie_word_embeddings"] = false;
  ModelConfig config = Good(c);
  EXPECT_EQ(config.ffn_width, 96);
  EXPECT_EQ(config.activation, ActivationKind::kRelu);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-3f);
  EXPECT_FALSE(config.tied_head);
  EXPECT_THAT(config.attention_scale, ElementsAre(1, 1, 1));
  c["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_THAT(Good(c).attention_scale, ElementsAre(1, 1.0f / 2, 1.0f / 3));
}

TEST(HfConfig, SlidingWindows) {
  json c = Of("mistral");
  EXPECT_THAT(Good(c).window, Each(4096));  // absent: the class's default
  c["sliding_window"] = nullptr;
  EXPECT_THAT(Good(c).window, Each(0));
  c["sliding_window"] = 32;
  EXPECT_THAT(Good(c).window, Each(32));
  for (const char* kind : {"qwen2", "qwen3"}) {
    c = Of(kind);
    c["sliding_window"] = 32;
    c["max_window_layers"] = 3;
    EXPECT_THAT(Good(c).window, Each(0)) << "use_sliding_window is off";
    c["use_sliding_window"] = true;
    EXPECT_THAT(Good(c).window, ElementsAre(0, 0, 0, 32));
    c["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                        "sliding_attention"};
    EXPECT_THAT(Good(c).window, ElementsAre(32, 0, 0, 32));
    ExpectRefused(c, "layer_types", {"sliding_attention"});
    ExpectRefused(c, "layer_types", json::array({"a", "b", "c", "d"}));
  }
  ExpectRefused(Llama(), "sliding_window", 32);
}

// inv_freq and the attention factor, against transformers.
TEST(HfConfig, RopeEqualsTheReference) {
  const auto fixture = json::parse(ReadFile(FixturePath("rope_frequencies.json")));
  ASSERT_EQ(fixture["cases"].size(), 12u);
  for (const json& entry : fixture["cases"]) {
    const ModelConfig config = Good(entry["config"]);
    EXPECT_NEAR(config.rope_scale, entry["attention_factor"].get<double>(), 1e-6);
    const std::vector<float> expected = entry["inv_freq"];
    ASSERT_EQ(config.inv_freq.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(config.inv_freq[i], expected[i], 2e-6 * expected[i]) << entry["config"] << i;
    }
  }
}

TEST(HfConfig, RopePlaces) {
  const float top = Good([] {
                      json c = Llama();
                      c["rope_theta"] = 5e5;
                      return c;
                    }())
                        .inv_freq[1];
  json c = Llama();
  c["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  EXPECT_EQ(Good(c).inv_freq[1], top);
  c = Llama();
  c["rope_scaling"] = {{"rope_theta", 5e5}, {"type", "default"}};
  c["rope_theta"] = 1e4;  // the place further in wins
  EXPECT_EQ(Good(c).inv_freq[1], top);
  EXPECT_NE(Good(Llama()).inv_freq[1], top);
}

TEST(HfConfig, RefusesRopeByField) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    for (const char* type : {"dynamic", "longrope", "su", "mrope"}) {
      json c = Llama();
      c[name] = {{"rope_type", type}, {"factor", 2.0}};
      const auto parsed = Parse(c);
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented) << type;
      EXPECT_THAT(std::string(parsed.status().message()),
                  testing::AllOf(HasSubstr(name), HasSubstr("rope_type"), HasSubstr(type)));
    }
  }
  const auto error = [](const json& rope) {
    json c = Llama();
    c["rope_scaling"] = rope;
    return std::string(Parse(c).status().message());
  };
  EXPECT_THAT(error({{"type", "linear"}}), HasSubstr("factor is missing"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", 0}}), HasSubstr("factor is not positive"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", "2"}}), HasSubstr("factor is not a finite"));
  EXPECT_THAT(error({{"type", 7}}), HasSubstr("type is not a string"));
  EXPECT_THAT(error({{"short_factor", {1, 2}}}), HasSubstr("short_factor"));
  EXPECT_THAT(error({{"full_attention", {{"rope_theta", 1}}}}), HasSubstr("full_attention"));
  EXPECT_THAT(error({{"partial_rotary_factor", 0.5}}), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(error({{"type", "llama3"}, {"factor", 8}}), HasSubstr("low_freq_factor is missing"));
  EXPECT_THAT(
      error({{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
      HasSubstr("high_freq_factor"));
  EXPECT_THAT(error("linear"), HasSubstr("rope_scaling is not an object"));
}

TEST(HfConfig, RefusesFieldsByName) {
  const std::pair<const char*, json> fields[] = {
      {"model_type", "mamba"},
      {"model_type", nullptr},
      {"hidden_act", "quick_gelu"},
      {"hidden_size", 0},
      {"hidden_size", 65},
      {"hidden_size", 1 << 30},
      {"hidden_size", 64.0},
      {"hidden_size", "64"},
      {"num_hidden_layers", nullptr},
      {"num_attention_heads", -4},
      {"vocab_size", 1e9},
      {"rms_norm_eps", -1e-5},
      {"tie_word_embeddings", "yes"},
      {"quantization_config", {{"quant_method", "gptq"}}},
      {"partial_rotary_factor", 0.5},
      {"num_local_experts", 8},
      {"num_experts", 64},
      {"final_logit_softcapping", 30.0},
      {"attn_logit_softcapping", 50.0},
      {"logit_scale", 0.0625},
      {"embedding_multiplier", 12.0},
      {"residual_multiplier", 0.22},
      {"query_pre_attn_scalar", 256},
      {"scale_emb", 12},
      {"is_causal", false},
      {"use_qk_norm", true},
      {"clip_qkv", 8.0},
      {"no_rope_layers", {1, 1, 0, 1}},
  };
  for (const auto& [field, value] : fields) ExpectRefused(Llama(), field, value);
  ExpectRefused(Gpt2(), "activation_function", "tanh");
  ExpectRefused(Gpt2(), "add_cross_attention", true);
  ExpectRefused(Gpt2(), "n_embd", 66);
  json no_kv = Of("qwen2");
  no_kv.erase("num_key_value_heads");
  EXPECT_THAT(std::string(Parse(no_kv).status().message()), HasSubstr("num_key_value_heads"));
}

TEST(HfConfig, NeutralValuesAreAccepted) {
  json c = Llama();
  c["quantization_config"] = nullptr;
  c["num_local_experts"] = 0;
  c["logit_scale"] = 1.0;
  c["is_causal"] = true;
  c["use_qk_norm"] = false;
  c["pruned_heads"] = json::object();
  c["torch_dtype"] = "bfloat16";
  c["some_note"] = {1, 2, 3};
  Good(c);
}

TEST(HfConfig, RefusesShapes) {
  json c = Llama();
  c["num_key_value_heads"] = 3;
  EXPECT_THAT(std::string(Parse(c).status().message()), HasSubstr("key-value heads"));
  for (const int head_dim : {12, 264}) {
    c = Llama();
    c["head_dim"] = head_dim;
    EXPECT_FALSE(Parse(c).ok()) << head_dim;
  }
}

TEST(HfConfig, EndIdsAreTheUnionOfBothFiles) {
  json c = Llama();
  c["eos_token_id"] = 5;
  c["bos_token_id"] = 1;
  EXPECT_THAT(Good(c).eos_ids, ElementsAre(5));
  c["eos_token_id"] = {5, 6};
  const ModelConfig config = Good(c, R"({"eos_token_id":[6,99],"bos_token_id":2})");
  EXPECT_THAT(config.eos_ids, ElementsAre(5, 6, 99));
  EXPECT_EQ(config.bos_id, 1);
  for (const json& bad : {json(100), json(-1), json("5"), json({5, 100}), json(1.5)}) {
    ExpectRefused(Llama(), "eos_token_id", bad);
    ExpectRefused(Llama(), "bos_token_id", bad);
  }
  const auto parsed = Parse(c, R"({"eos_token_id":[6,100]})");
  EXPECT_THAT(std::string(parsed.status().message()),
              HasSubstr("dir/generation_config.json: eos_token_id"));
}

TEST(HfConfig, GenerationDefaults) {
  ModelConfig config = Good(Llama(), R"({"temperature":0.6,"top_p":0.9,"top_k":50})");
  EXPECT_TRUE(config.has_temperature && config.has_top_p && config.has_top_k);
  EXPECT_FLOAT_EQ(config.temperature, 0.6f);
  EXPECT_FLOAT_EQ(config.top_p, 0.9f);
  EXPECT_EQ(config.top_k, 50);
  config = Good(Llama(), R"({"top_k":null})");
  EXPECT_FALSE(config.has_temperature || config.has_top_p || config.has_top_k);
  EXPECT_EQ(config.temperature, 1);
  EXPECT_EQ(config.top_k, 0);
  for (const char* bad : {R"({"temperature":-1})", R"({"top_p":0})", R"({"top_p":1.5})",
                          R"({"top_k":-2})", R"({"top_k":2.5})", "[]", "{"}) {
    EXPECT_FALSE(Parse(Llama(), bad).ok()) << bad;
  }
}

TEST(HfConfig, RefusesBrokenJson) {
  for (const char* text :
       {"", "[]", "{", "null", R"({"model_type":"llama","model_type":"gpt2"})"}) {
    const auto parsed = ParseHuggingFaceConfig(text, "", "dir");
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("dir/config.json")) << text;
  }
  std::string deep(100'000, '[');
  EXPECT_FALSE(ParseHuggingFaceConfig(R"({"x":)" + deep, "", "dir").ok());
}

}  // namespace
}  // namespace rally
