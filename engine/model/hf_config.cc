#include "engine/model/hf_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/checked_json.h"
#include "engine/base/input_file.h"
#include "engine/base/status_macros.h"
#include "engine/model/field_reader.h"
#include "engine/model/hf_foreign_fields.h"
#include "engine/model/hf_rope.h"
#include "engine/model/model_config_limits.h"

namespace rally {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = 1 << 20;
constexpr int32_t kNoLimit = std::numeric_limits<int32_t>::max();

void ReadActivation(FieldReader& fields, absl::string_view field, const std::string& fallback,
                    ModelConfig& config) {
  const std::string name = fields.String(field, fallback);
  if (name == "silu" || name == "swish") {
    config.activation = ActivationKind::kSilu;
  } else if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
    config.activation = ActivationKind::kGeluTanh;
  } else if (name == "gelu") {
    config.activation = ActivationKind::kGeluErf;
  } else if (name == "relu") {
    config.activation = ActivationKind::kRelu;
  } else {
    fields.Unsupported(field, absl::StrCat("'", name, "' is not supported"));
  }
}

// head_dim, where the file has none.
int32_t DerivedHeadDim(FieldReader& fields, absl::string_view width_field,
                       const ModelConfig& config) {
  if (!fields.status().ok()) return 0;
  if (config.width % config.q_heads != 0) {
    fields.Invalid(width_field, "is no multiple of the number of attention heads");
  }
  return config.width / config.q_heads;
}

void ReadGpt2(FieldReader& fields, ModelConfig& config) {
  config.width = fields.Int("n_embd", 1, kMaxWidth);
  config.layers = fields.Int("n_layer", 1, kMaxLayers);
  config.q_heads = config.kv_heads = fields.Int("n_head", 1, kMaxHeads);
  config.ffn_width = fields.Int("n_inner", 1, kMaxFfnWidth, 4 * config.width);
  config.context_length = fields.Int("n_positions", 1, kMaxContextLength);
  config.head_dim = DerivedHeadDim(fields, "n_embd", config);
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = static_cast<float>(fields.Positive("layer_norm_epsilon", 1e-5));
  config.learned_positions = true;
  config.qkv_bias = config.attention_output_bias = config.ffn_bias = true;
  config.gated = false;
  ReadActivation(fields, "activation_function", "gelu_new", config);
  config.tied_head = fields.Bool("tie_word_embeddings", true);
  const bool scaled = fields.Bool("scale_attn_weights", true);
  const bool by_layer = fields.Bool("scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn changes the order of the arithmetic and not the result.
  if (!fields.status().ok()) return;
  config.window.assign(static_cast<size_t>(config.layers), 0);
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    const float scale = scaled ? 1 / std::sqrt(static_cast<float>(config.head_dim)) : 1;
    config.attention_scale.push_back(by_layer ? scale / static_cast<float>(layer + 1) : scale);
  }
}

// Sliding windows of Mistral (all layers) and Qwen (from max_window_layers on, or layer_types).
void ReadWindows(FieldReader& fields, ModelConfig& config) {
  constexpr int32_t kDefaultWindow = 4096;  // of transformers, where the field is absent
  const bool qwen = config.architecture == "qwen2" || config.architecture == "qwen3";
  const bool mistral = config.architecture == "mistral";
  const bool absent = !fields.object().contains("sliding_window");
  int32_t window = fields.Int("sliding_window", 1, kNoLimit, absent ? kDefaultWindow : 0);
  if (qwen && !fields.Bool("use_sliding_window", false)) window = 0;
  if (!qwen && !mistral) {
    if (fields.Has("sliding_window")) fields.Unsupported("sliding_window", "is not supported here");
    window = 0;
  }
  const int32_t first = qwen ? fields.Int("max_window_layers", 0, kNoLimit, 28) : 0;
  if (!fields.status().ok()) return;
  for (int32_t i = 0; i < config.layers; ++i) config.window.push_back(i >= first ? window : 0);

  const json* types = fields.Find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->size() != config.window.size()) {
    return fields.Invalid("layer_types", "is not a list with an entry for each layer");
  }
  for (size_t i = 0; i < config.window.size(); ++i) {
    const bool slides = (*types)[i] == "sliding_attention";
    if (!slides && (*types)[i] != "full_attention") {
      return fields.Unsupported("layer_types", "has a kind other than full and sliding attention");
    }
    if (slides && window == 0) return fields.Invalid("layer_types", "slides without a window");
    // The reference reads layer_types for Qwen only.
    if (!qwen && slides != (config.window[i] > 0)) {
      return fields.Unsupported("layer_types", "disagrees with sliding_window");
    }
    config.window[i] = slides ? window : 0;
  }
}

// Llama, Mistral, Qwen2, Qwen3.
void ReadRotary(FieldReader& fields, ModelConfig& config) {
  const bool qwen3 = config.architecture == "qwen3";
  const bool llama = config.architecture == "llama";
  config.width = fields.Int("hidden_size", 1, kMaxWidth);
  config.layers = fields.Int("num_hidden_layers", 1, kMaxLayers);
  config.q_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  // The other classes have fixed defaults of their own, which no real file leaves out.
  const bool has_kv = llama || fields.object().contains("num_key_value_heads");
  if (!has_kv) fields.Invalid("num_key_value_heads", "is missing");
  config.kv_heads = fields.Int("num_key_value_heads", 1, kMaxHeads, config.q_heads);
  config.ffn_width = fields.Int("intermediate_size", 1, kMaxFfnWidth);
  config.context_length = fields.Int("max_position_embeddings", 1, kMaxContextLength);
  config.head_dim = fields.Has("head_dim") ? fields.Int("head_dim", 1, kMaxHeadDim)
                    : qwen3                ? 128
                                           : DerivedHeadDim(fields, "hidden_size", config);
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = static_cast<float>(fields.Positive("rms_norm_eps", 1e-6));
  config.qk_norm = qwen3;
  const bool attention_bias = (llama || qwen3) && fields.Bool("attention_bias", false);
  config.qkv_bias = attention_bias || config.architecture == "qwen2";
  config.attention_output_bias = attention_bias;
  config.ffn_bias = llama && fields.Bool("mlp_bias", false);
  ReadActivation(fields, "hidden_act", "silu", config);
  config.gated = true;
  config.tied_head = fields.Bool("tie_word_embeddings", false);
  if (!fields.status().ok()) return;
  config.attention_scale.assign(static_cast<size_t>(config.layers),
                                1 / std::sqrt(static_cast<float>(config.head_dim)));
  ReadWindows(fields, config);
  ReadRope(fields, config);
}

void ReadTokenIds(FieldReader& fields, ModelConfig& config) {
  for (const int32_t id : fields.TokenIds("eos_token_id", config.vocab_size)) {
    const auto& known = config.eos_ids;
    if (std::find(known.begin(), known.end(), id) == known.end()) config.eos_ids.push_back(id);
  }
  const std::vector<int32_t> bos = fields.TokenIds("bos_token_id", config.vocab_size);
  if (config.bos_id < 0 && !bos.empty()) config.bos_id = bos.front();
}

void ReadGeneration(FieldReader& fields, ModelConfig& config) {
  ReadTokenIds(fields, config);
  config.has_temperature = fields.Has("temperature");
  config.temperature = static_cast<float>(fields.Number("temperature", 1));
  if (config.temperature < 0) fields.Invalid("temperature", "is negative");
  config.has_top_p = fields.Has("top_p");
  config.top_p = static_cast<float>(fields.Positive("top_p", 1));
  if (config.top_p > 1) fields.Invalid("top_p", "is above 1");
  config.has_top_k = fields.Has("top_k");
  config.top_k = std::max(0, fields.Int("top_k", -1, kNoLimit, 0));  // -1 and 0: off
}

}  // namespace

absl::StatusOr<ModelConfig> ParseHuggingFaceConfig(absl::string_view config_json,
                                                   absl::string_view generation_json,
                                                   const std::string& directory) {
  const std::string where = absl::StrCat(directory, "/config.json");
  RALLY_ASSIGN_OR_RETURN(const json object, ParseJsonObject(config_json, where));
  FieldReader fields(object, where);
  ModelConfig config;
  config.architecture = fields.String("model_type");
  RefuseForeignFields(fields);
  config.vocab_size = fields.Int("vocab_size", 1, kMaxVocabSize);
  const std::string& kind = config.architecture;
  if (kind == "gpt2") {
    ReadGpt2(fields, config);
  } else if (kind == "llama" || kind == "mistral" || kind == "qwen2" || kind == "qwen3") {
    ReadRotary(fields, config);
  } else {
    fields.Unsupported("model_type", absl::StrCat("'", kind, "' is not supported"));
  }
  ReadTokenIds(fields, config);
  RALLY_RETURN_IF_ERROR(fields.status());
  RALLY_RETURN_IF_ERROR(CheckShapes(config, where));
  if (!generation_json.empty()) {
    const std::string file = absl::StrCat(directory, "/generation_config.json");
    RALLY_ASSIGN_OR_RETURN(const json generation, ParseJsonObject(generation_json, file));
    FieldReader generation_fields(generation, file);
    ReadGeneration(generation_fields, config);
    RALLY_RETURN_IF_ERROR(generation_fields.status());
  }
  return config;
}

absl::StatusOr<ModelConfig> ReadHuggingFaceConfig(const std::string& directory) {
  RALLY_ASSIGN_OR_RETURN(const std::string config,
                         ReadTextFile(absl::StrCat(directory, "/config.json"), kMaxConfigBytes));
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  std::string generation;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    RALLY_ASSIGN_OR_RETURN(generation, ReadTextFile(path, kMaxConfigBytes));
  }
  return ParseHuggingFaceConfig(config, generation, directory);
}

}  // namespace rally
