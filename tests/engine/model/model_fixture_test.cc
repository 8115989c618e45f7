// The loaders against transformers: a plain fp32 forward pass, written here from the definition of
// the models and from nothing of the engine's, gives the logits that the fixtures hold.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/model/model_loader.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using Values = std::vector<float>;

Values Read(const std::unique_ptr<RowSource>& source) {
  return source == nullptr ? Values() : ReadAll(*source);
}

// y = W x + b; the number of rows follows from the sizes.
Values Linear(const Values& w, const Values& bias, const Values& x) {
  Values y(w.size() / x.size());
  for (size_t r = 0; r < y.size(); ++r) {
    double sum = bias.empty() ? 0 : bias[r];
    for (size_t c = 0; c < x.size(); ++c) sum += double{w[r * x.size() + c]} * x[c];
    y[r] = static_cast<float>(sum);
  }
  return y;
}

void Norm(float* x, size_t n, const Values& weight, const Values& bias, float epsilon) {
  double mean = 0, squares = 0;
  if (!bias.empty()) {
    for (size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  }
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) {
    const double normed = (x[i] - mean) / std::sqrt(squares + epsilon) * weight[i];
    x[i] = static_cast<float>(normed + (bias.empty() ? 0 : bias[i]));
  }
}

float Activate(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kSilu:
      return static_cast<float>(x / (1 + std::exp(-x)));
    case ActivationKind::kGeluTanh:
      return static_cast<float>(0.5 * x *
                                (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    case ActivationKind::kGeluErf:
      return static_cast<float>(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
    case ActivationKind::kRelu:
      return static_cast<float>(std::max(x, 0.0));
  }
  return 0;
}

class PlainModel {
 public:
  explicit PlainModel(const ModelSource& source) : source_(source), c_(source.config) {}

  // (tokens, V)
  std::vector<Values> Logits(const std::vector<int32_t>& ids) {
    const auto d = static_cast<size_t>(c_.width);
    const Values embedding = Read(source_.token_embedding);
    const Values positions = Read(source_.position_embedding);
    std::vector<Values> x;
    for (size_t t = 0; t < ids.size(); ++t) {
      const auto id = static_cast<size_t>(ids[t]);
      x.emplace_back(embedding.begin() + id * d, embedding.begin() + (id + 1) * d);
      for (size_t i = 0; i < d && !positions.empty(); ++i) x[t][i] += positions[t * d + i];
    }
    for (int layer = 0; layer < c_.layers; ++layer) Layer(layer, x);
    const Values weight = Read(source_.final_norm_weight), bias = Read(source_.final_norm_bias);
    const Values head = Read(source_.head_weight);
    for (Values& row : x) {
      Norm(row.data(), d, weight, bias, c_.norm_epsilon);
      row = Linear(head, {}, row);
    }
    return x;
  }

 private:
  void Layer(int layer, std::vector<Values>& x) {
    const LayerSource& l = source_.layers[layer];
    const Values norm1 = Read(l.attention_norm_weight), norm1_bias = Read(l.attention_norm_bias);
    const Values norm2 = Read(l.ffn_norm_weight), norm2_bias = Read(l.ffn_norm_bias);
    const Values qkv_w = Read(l.qkv_weight), qkv_b = Read(l.qkv_bias);
    const Values q_norm = Read(l.q_norm_weight), k_norm = Read(l.k_norm_weight);
    const Values out_w = Read(l.attention_output_weight), out_b = Read(l.attention_output_bias);
    const Values up_w = Read(l.ffn_up_weight), up_b = Read(l.ffn_up_bias);
    const Values down_w = Read(l.ffn_down_weight), down_b = Read(l.ffn_down_bias);
    std::vector<Values> qkv;
    for (size_t t = 0; t < x.size(); ++t) {
      Values row = x[t];
      Norm(row.data(), row.size(), norm1, norm1_bias, c_.norm_epsilon);
      qkv.push_back(Linear(qkv_w, qkv_b, row));
      for (int h = 0; h < c_.q_heads + c_.kv_heads; ++h) {
        float* head = qkv[t].data() + h * c_.head_dim;
        const Values& weight = h < c_.q_heads ? q_norm : k_norm;
        if (c_.qk_norm) Norm(head, static_cast<size_t>(c_.head_dim), weight, {}, c_.norm_epsilon);
        Rotate(head, t);
      }
    }
    for (size_t t = 0; t < x.size(); ++t) {
      Add(Linear(out_w, out_b, Attend(layer, qkv, t)), x[t]);
      Values row = x[t];
      Norm(row.data(), row.size(), norm2, norm2_bias, c_.norm_epsilon);
      Values up = Linear(up_w, up_b, row);
      const auto f = static_cast<size_t>(c_.ffn_width);
      for (size_t i = 0; i < f; ++i) {
        const float gate = Activate(c_.activation, up[i]);
        up[i] = c_.gated ? gate * up[f + i] : gate;
      }
      up.resize(f);
      Add(Linear(down_w, down_b, up), x[t]);
    }
  }

  static void Add(const Values& more, Values& x) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }

  void Rotate(float* head, size_t position) {
    const int half = c_.rotary_dim / 2;
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * c_.inv_freq[i];
      const double cos = std::cos(angle) * c_.rope_scale, sin = std::sin(angle) * c_.rope_scale;
      const double a = head[i], b = head[i + half];
      head[i] = static_cast<float>(a * cos - b * sin);
      head[i + half] = static_cast<float>(b * cos + a * sin);
    }
  }

  Values Attend(int layer, const std::vector<Values>& qkv, size_t t) {
    Values out(static_cast<size_t>(c_.q_width()), 0.0f);
    const size_t window = static_cast<size_t>(c_.window[layer]);
    const size_t first = window == 0 || t < window ? 0 : t - window + 1;
    for (int h = 0; h < c_.q_heads; ++h) {
      const int kv = h / (c_.q_heads / c_.kv_heads);
      const float* q = qkv[t].data() + h * c_.head_dim;
      std::vector<double> scores;
      for (size_t s = first; s <= t; ++s) {
        const float* k = qkv[s].data() + c_.q_width() + kv * c_.head_dim;
        double score = 0;
        for (int i = 0; i < c_.head_dim; ++i) score += double{q[i]} * k[i];
        scores.push_back(score * c_.attention_scale[layer]);
      }
      const double top = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - top);
      for (size_t s = first; s <= t; ++s) {
        const float* v = qkv[s].data() + c_.q_width() + c_.kv_width() + kv * c_.head_dim;
        for (int i = 0; i < c_.head_dim; ++i) {
          out[h * c_.head_dim + i] += static_cast<float>(scores[s - first] / sum * v[i]);
        }
      }
    }
    return out;
  }

  const ModelSource& source_;
  const ModelConfig& c_;
};

void ExpectReferenceLogits(const std::string& model_path, const std::string& expected_stem) {
  const auto source = OpenModel(model_path, LoadFormat::kAuto, 0);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto expected = nlohmann::json::parse(ReadFile(expected_stem + "expected.json"));
  const std::string bytes = ReadFile(expected_stem + "logits.bin");
  Values logits(bytes.size() / sizeof(float));
  std::memcpy(logits.data(), bytes.data(), bytes.size());
  size_t at = 0;
  PlainModel model(*source);
  for (const auto& prompt : expected["prompts"]) {
    for (const Values& row : model.Logits(prompt["ids"])) {
      for (const float logit : row) {
        ASSERT_LT(at, logits.size());
        ASSERT_NEAR(logit, logits[at], 2e-4) << model_path << " logit " << at;
        ++at;
      }
    }
  }
  EXPECT_EQ(at, logits.size());
}

class Directories : public testing::TestWithParam<const char*> {};

TEST_P(Directories, LogitsEqualTheReference) {
  ExpectReferenceLogits(Checkpoint(GetParam()), Checkpoint(GetParam()) + "/");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Directories,
                         testing::Values("gpt2_tiny", "llama_tiny", "llama3_tiny", "qwen2_tiny",
                                         "qwen3_tiny"));

TEST(Sharded, LogitsEqualTheReference) {
  ExpectReferenceLogits(Checkpoint("qwen2_tiny_sharded"), Checkpoint("qwen2_tiny/"));
}

// A real model in a quantised file, where RALLY_SMOLLM2_GGUF names it.
TEST(SmolLm2, LogitsEqualTheReference) {
  const char* path = std::getenv("RALLY_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RALLY_SMOLLM2_GGUF is not set";
  const auto source = OpenModel(path, LoadFormat::kAuto, 0);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto expected = nlohmann::json::parse(ReadFile(FixturePath("smollm2_expected.json")));
  const std::string bytes = ReadFile(FixturePath("smollm2_logits.bin"));
  const auto logits = PlainModel(*source).Logits(expected["generations"][0]["ids"]);
  ASSERT_EQ(logits.back().size() * sizeof(float), bytes.size());
  for (size_t i = 0; i < logits.back().size(); ++i) {
    float reference;
    std::memcpy(&reference, bytes.data() + i * sizeof reference, sizeof reference);
    ASSERT_NEAR(logits.back()[i], reference, 1e-3) << i;
  }
}

class GgufFiles : public testing::TestWithParam<const char*> {};

TEST_P(GgufFiles, LogitsEqualTheReference) {
  ExpectReferenceLogits(Checkpoint(GetParam()), Checkpoint(GetParam()) + ".");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufFiles,
                         testing::Values("llama_tiny.gguf", "qwen2_tiny.gguf"));

}  // namespace
}  // namespace rally
