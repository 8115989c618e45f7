#include "engine/model/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/model/field_reader.h"
#include "engine/model/model_config_limits.h"
#include "engine/model/rope_frequencies.h"

namespace rally {
namespace {

using nlohmann::json;

constexpr auto kArchitectures =
    std::to_array<absl::string_view>({"gpt2", "llama", "qwen2", "qwen3"});

// Keys of an architecture's section that are read here, or change nothing.
constexpr auto kKnownKeys = std::to_array<absl::string_view>({
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "vocab_size",
});

const GgufTensor* FindTensor(const GgufFile& gguf, absl::string_view name) {
  const auto it = std::find_if(gguf.tensors.begin(), gguf.tensors.end(),
                               [name](const GgufTensor& tensor) { return tensor.name == name; });
  return it == gguf.tensors.end() ? nullptr : &*it;
}

bool HasTensor(const GgufFile& gguf, absl::string_view name) {
  return FindTensor(gguf, name) != nullptr;
}

void RefuseUnknownKeys(FieldReader& fields, const std::string& architecture) {
  const std::string section = absl::StrCat(architecture, ".");
  for (const auto& [key, value] : fields.object().items()) {
    if (!absl::StartsWith(key, section)) continue;
    const absl::string_view rest = absl::string_view(key).substr(section.size());
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), rest) == kKnownKeys.end()) {
      fields.Unsupported(key, "is not supported");
    }
  }
}

// What only one value of is supported, whatever the architecture.
void RefuseOtherKinds(FieldReader& fields, const std::string& a) {
  if (fields.String("general.type", "model") != "model") {
    fields.Unsupported("general.type", "is not 'model'");
  }
  if (fields.Int("split.count", 0, 1 << 16, 1) > 1) {
    fields.Unsupported("split.count", "says that this is one of several files; merge them");
  }
  if (!fields.Bool(a + ".attention.causal", true)) {
    fields.Unsupported(a + ".attention.causal", "is false");
  }
  if (fields.Int(a + ".expert_count", 0, 1 << 16, 0) != 0) {
    fields.Unsupported(a + ".expert_count", "is not 0");
  }
  if (fields.Number(a + ".rope.scaling.attn_factor", 1) != 1) {
    fields.Unsupported(a + ".rope.scaling.attn_factor", "is not 1");
  }
}

void ReadShape(FieldReader& fields, const std::string& a, ModelConfig& config) {
  config.layers = fields.Int(a + ".block_count", 1, kMaxLayers);
  config.context_length = fields.Int(a + ".context_length", 1, kMaxContextLength);
  config.width = fields.Int(a + ".embedding_length", 1, kMaxWidth);
  config.ffn_width = fields.Int(a + ".feed_forward_length", 1, kMaxFfnWidth);
  config.q_heads = fields.Int(a + ".attention.head_count", 1, kMaxHeads);
  config.kv_heads = fields.Int(a + ".attention.head_count_kv", 1, kMaxHeads, config.q_heads);
  if (!fields.status().ok()) return;
  const int32_t derived = config.width / config.q_heads;
  if (!fields.Has(a + ".attention.key_length") && config.width % config.q_heads != 0) {
    fields.Invalid(a + ".embedding_length", "is no multiple of the number of attention heads");
  }
  config.head_dim = fields.Int(a + ".attention.key_length", 1, kMaxHeadDim, derived);
  if (fields.Int(a + ".attention.value_length", 1, kMaxHeadDim, derived) != config.head_dim) {
    fields.Unsupported(a + ".attention.value_length", "differs from the key length");
  }
}

void ReadRope(FieldReader& fields, const std::string& a, ModelConfig& config) {
  const double theta = fields.Positive(a + ".rope.freq_base", 10000);
  config.rotary_dim = fields.Int(a + ".rope.dimension_count", 1, kMaxHeadDim, config.head_dim);
  if (config.rotary_dim != config.head_dim) {
    fields.Unsupported(a + ".rope.dimension_count", "differs from the head size");
  }
  config.inv_freq = RopeFrequencies(theta, config.rotary_dim);
  const std::string type = fields.String(a + ".rope.scaling.type", "linear");
  if (type != "linear" && type != "none") {
    fields.Unsupported(a + ".rope.scaling.type", absl::StrCat("'", type, "' is not supported"));
  }
  // A file that gives no kind and no factor is not scaled; rope.scale_linear is the older name.
  const double older = fields.Positive(a + ".rope.scale_linear", 1);
  const double factor = fields.Positive(a + ".rope.scaling.factor", older);
  if (type == "none" || !fields.status().ok()) return;
  for (float& f : config.inv_freq) f = static_cast<float>(f / factor);
}

absl::Status ApplyRopeFactors(const GgufFile& gguf, ModelConfig& config) {
  const GgufTensor* tensor = FindTensor(gguf, "rope_freqs.weight");
  if (tensor == nullptr) return absl::OkStatus();
  const std::string where = absl::StrCat(gguf.file->path(), ": tensor 'rope_freqs.weight' ");
  const size_t n = config.inv_freq.size();
  if (tensor->type->decode != &DecodeF32 || tensor->bytes != n * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(where, "is not ", n, " F32 values"));
  }
  std::vector<float> factors(n);
  RALLY_RETURN_IF_ERROR(gguf.file->ReadAt(tensor->offset, factors.data(), tensor->bytes));
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(factors[i]) || factors[i] <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, "holds a factor that is not positive"));
    }
    config.inv_freq[i] /= factors[i];
  }
  return absl::OkStatus();
}

void ReadGpt2(FieldReader& fields, ModelConfig& config) {
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon =
      static_cast<float>(fields.Positive("gpt2.attention.layer_norm_epsilon", 1e-5));
  config.learned_positions = true;
  config.qkv_bias = config.attention_output_bias = config.ffn_bias = true;
  config.activation = ActivationKind::kGeluTanh;
  config.gated = false;
}

void ReadRotary(const GgufFile& gguf, FieldReader& fields, ModelConfig& config) {
  const std::string& a = config.architecture;
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon =
      static_cast<float>(fields.Positive(a + ".attention.layer_norm_rms_epsilon"));
  config.activation = ActivationKind::kSilu;
  config.gated = true;
  config.qk_norm = a == "qwen3";
  config.qkv_bias = HasTensor(gguf, "blk.0.attn_q.bias");
  config.attention_output_bias = HasTensor(gguf, "blk.0.attn_output.bias");
  config.ffn_bias = HasTensor(gguf, "blk.0.ffn_up.bias");
  ReadRope(fields, a, config);
}

// The embedding has one row an id; the vocabulary may be smaller (padded models).
void ReadVocabSize(const GgufFile& gguf, FieldReader& fields, ModelConfig& config) {
  const GgufTensor* embedding = FindTensor(gguf, "token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[0] < 1 ||
      embedding->shape[0] > kMaxVocabSize) {
    return fields.Invalid("tensor 'token_embd.weight'", "is missing or has no valid shape");
  }
  config.vocab_size = static_cast<int32_t>(embedding->shape[0]);
  const std::string key = config.architecture + ".vocab_size";
  if (fields.Int(key, 1, kMaxVocabSize, config.vocab_size) != config.vocab_size) {
    fields.Invalid(key, absl::StrCat("is not the ", config.vocab_size, " rows of the embedding"));
  }
  const json* tokens = fields.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->size() > static_cast<size_t>(config.vocab_size)) {
    fields.Invalid("tokenizer.ggml.tokens", "are more than the rows of the embedding");
  }
}

void ReadTokenIds(FieldReader& fields, ModelConfig& config) {
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const std::string name = absl::StrCat("tokenizer.ggml.", key);
    for (const int32_t id : fields.TokenIds(name, config.vocab_size)) {
      const auto& known = config.eos_ids;
      if (std::find(known.begin(), known.end(), id) == known.end()) config.eos_ids.push_back(id);
    }
  }
  const auto bos = fields.TokenIds("tokenizer.ggml.bos_token_id", config.vocab_size);
  if (!bos.empty()) config.bos_id = bos.front();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& gguf) {
  const std::string& where = gguf.file->path();
  FieldReader fields(gguf.metadata, where);
  ModelConfig config;
  config.architecture = fields.String("general.architecture");
  RALLY_RETURN_IF_ERROR(fields.status());
  const std::string& a = config.architecture;
  if (std::find(kArchitectures.begin(), kArchitectures.end(), a) == kArchitectures.end()) {
    return absl::UnimplementedError(
        absl::StrCat(where, ": general.architecture '", a, "' is not supported"));
  }
  RefuseUnknownKeys(fields, a);
  RefuseOtherKinds(fields, a);
  ReadShape(fields, a, config);
  ReadVocabSize(gguf, fields, config);
  RALLY_RETURN_IF_ERROR(fields.status());
  if (a == "gpt2") {
    ReadGpt2(fields, config);
  } else {
    ReadRotary(gguf, fields, config);
  }
  ReadTokenIds(fields, config);
  RALLY_RETURN_IF_ERROR(fields.status());
  RALLY_RETURN_IF_ERROR(CheckShapes(config, where));
  RALLY_RETURN_IF_ERROR(ApplyRopeFactors(gguf, config));
  config.tied_head = !HasTensor(gguf, "output.weight");
  config.window.assign(static_cast<size_t>(config.layers), 0);
  config.attention_scale.assign(static_cast<size_t>(config.layers),
                                1 / std::sqrt(static_cast<float>(config.head_dim)));
  return config;
}

}  // namespace rally
