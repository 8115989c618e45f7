#include "tests/engine/model/random_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

namespace rally {
namespace {

class RandomRows final : public RowSource {
 public:
  RandomRows(int64_t rows, int64_t cols, float center, uint64_t seed)
      : rows_(rows), cols_(cols), center_(center), seed_(seed) {}
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    for (int64_t r = first; r < first + count; ++r) {
      std::mt19937_64 random(seed_ + static_cast<uint64_t>(r) * 7919);
      std::normal_distribution<float> normal(center_, 0.15f);
      for (int64_t c = 0; c < cols_; ++c) {
        *out++ = std::round(std::clamp(normal(random), -0.99f, 1.99f) * 128) / 128;
      }
    }
    return absl::OkStatus();
  }

 private:
  const int64_t rows_, cols_;
  const float center_;
  const uint64_t seed_;
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : seed_(seed) {}
  std::unique_ptr<RowSource> Matrix(int64_t rows, int64_t cols, float center = 0) {
    return std::make_unique<RandomRows>(rows, cols, center, seed_ += 1'000'003);
  }
  std::unique_ptr<RowSource> Bias(bool wanted, int64_t n) {
    return wanted ? Matrix(1, n) : nullptr;
  }
  std::unique_ptr<RowSource> Norm(bool wanted, int64_t n) {
    return wanted ? Matrix(1, n, 1) : nullptr;
  }

 private:
  uint64_t seed_;
};

}  // namespace

ModelSource RandomModel(const ModelConfig& config, uint64_t seed) {
  const ModelConfig& c = config;
  Maker make(seed);
  ModelSource source;
  source.config = c;
  source.token_embedding = make.Matrix(c.vocab_size, c.width);
  if (c.learned_positions) source.position_embedding = make.Matrix(c.context_length, c.width);
  const bool layer_norm = c.norm == NormKind::kLayerNorm;
  const int32_t up = c.gated ? 2 * c.ffn_width : c.ffn_width;
  for (int32_t i = 0; i < c.layers; ++i) {
    LayerSource layer;
    layer.attention_norm_weight = make.Norm(true, c.width);
    layer.attention_norm_bias = make.Bias(layer_norm, c.width);
    layer.qkv_weight = make.Matrix(c.qkv_width(), c.width);
    layer.qkv_bias = make.Bias(c.qkv_bias, c.qkv_width());
    layer.q_norm_weight = make.Norm(c.qk_norm, c.head_dim);
    layer.k_norm_weight = make.Norm(c.qk_norm, c.head_dim);
    layer.attention_output_weight = make.Matrix(c.width, c.q_width());
    layer.attention_output_bias = make.Bias(c.attention_output_bias, c.width);
    layer.ffn_norm_weight = make.Norm(true, c.width);
    layer.ffn_norm_bias = make.Bias(layer_norm, c.width);
    layer.ffn_up_weight = make.Matrix(up, c.width);
    layer.ffn_up_bias = make.Bias(c.ffn_bias, up);
    layer.ffn_down_weight = make.Matrix(c.width, c.ffn_width);
    layer.ffn_down_bias = make.Bias(c.ffn_bias, c.width);
    source.layers.push_back(std::move(layer));
  }
  source.final_norm_weight = make.Norm(true, c.width);
  source.final_norm_bias = make.Bias(layer_norm, c.width);
  source.head_weight = make.Matrix(c.vocab_size, c.width);
  return source;
}

}  // namespace rally
