// Decode steps on the GPU in bf16 and fp16 against the host's fp32, over the shapes that take
// different kernels there: how many rows, how long the context, which kind of model.
//
// Tolerance: the weights are the same numbers in every type, so what differs is the rounding of
// activations, relative error u = 2^-9 (bf16) or 2^-12 (fp16), about ten times a layer. Twenty
// roundings in random directions make 4.5 u, these two layers carry what the first one lost
// through the second about four times over, and the worst of 300 logits lies 4 deviations out: 80 u
// of the logits' standard deviation. A wrong position, head or mask moves them by whole deviations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/transformer.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/host_device.h"
#include "tests/engine/model/random_model.h"
#include "tests/engine/model/step_driver.h"

namespace rally {
namespace {

constexpr int32_t kContext = 400;

ModelConfig BaseConfig() {
  ModelConfig c;
  c.layers = 2;
  c.vocab_size = 301;
  c.context_length = kContext;
  return c;
}

std::vector<float> Frequencies(int32_t rotary_dim) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    frequencies.push_back(
        std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary_dim)));
  }
  return frequencies;
}

void Finish(ModelConfig* c) {
  if (!c->learned_positions) c->inv_freq = Frequencies(c->rotary_dim);
  c->window.resize(static_cast<size_t>(c->layers), 0);
  c->attention_scale.assign(static_cast<size_t>(c->layers),
                            1 / std::sqrt(static_cast<float>(c->head_dim)));
}

ModelConfig Gpt2() {
  ModelConfig c = BaseConfig();
  c.width = 96;
  c.ffn_width = 384;
  c.q_heads = c.kv_heads = 3;
  c.head_dim = 32;
  c.norm = NormKind::kLayerNorm;
  c.learned_positions = c.qkv_bias = c.attention_output_bias = c.ffn_bias = true;
  c.activation = ActivationKind::kGeluTanh;
  c.gated = false;
  Finish(&c);
  return c;
}

ModelConfig Llama() {
  ModelConfig c = BaseConfig();
  c.width = 128;
  c.ffn_width = 160;
  c.q_heads = 3;
  c.kv_heads = 1;
  c.head_dim = c.rotary_dim = 64;
  Finish(&c);
  return c;
}

// Head norms, a window in one layer, groups of 5, and a width of more than 1024, which the products
// take in several parts.
ModelConfig Qwen() {
  ModelConfig c = BaseConfig();
  c.width = 1056;
  c.ffn_width = 96;
  c.q_heads = 10;
  c.kv_heads = 2;
  c.head_dim = 80;
  c.rotary_dim = 48;
  c.qk_norm = c.qkv_bias = true;
  c.window = {0, 37};
  c.vocab_size = 77;
  Finish(&c);
  return c;
}

struct Case {
  const char* name;
  ModelConfig (*config)();
  DType dtype;
  int32_t rows;
  int32_t context;  // of the longest row
};

class DecodePathsTest : public testing::TestWithParam<Case> {
 protected:
  static int32_t Token(int32_t row, int32_t position) { return (row * 31 + position * 7) % 71; }
};

struct Side {
  Side(std::unique_ptr<Device> d, const ModelConfig& config, DType dtype, int32_t rows)
      : device(std::move(d)),
        model(*Transformer::Create(*device, RandomModel(config, 5), dtype)),
        driver(*device, *model, rows, std::max(rows, kContext), rows, 16) {}
  std::unique_ptr<Device> device;
  std::unique_ptr<Transformer> model;
  StepDriver driver;
};

TEST_P(DecodePathsTest, LogitsAreNearThoseOfFp32) {
  const Case& p = GetParam();
  std::string why_none;
  if (CudaDeviceCount(&why_none) == 0) GTEST_SKIP() << "no GPU: " << why_none;
  auto cuda = NewCudaDevice({});
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const ModelConfig config = p.config();
  Side actual(*std::move(cuda), config, p.dtype, p.rows);
  Side expected(*NewHostDevice({.threads = 2}), config, DType::kF32, p.rows);

  std::vector<DriverRow> rows;
  for (int32_t r = 0; r < p.rows; ++r) {
    const int32_t length = std::max(1, p.context - 5 * r);
    DriverRow row;
    row.slot = r + 1;
    for (int32_t i = 0; i < length; ++i) row.tokens.push_back(Token(r, i));
    actual.driver.Run({&row, 1});  // the prompts one by one
    expected.driver.Run({&row, 1});
    rows.push_back({.slot = r + 1, .first_position = length, .tokens = {Token(r, length)}});
  }
  std::reverse(rows.begin(), rows.end());  // rows are not slots
  for (int step = 0; step < 4; ++step) {
    actual.driver.Run(rows);
    expected.driver.Run(rows);
    for (int32_t r = 0; r < p.rows; ++r) {
      const auto y = actual.driver.logits(r);
      const auto x = expected.driver.logits(r);
      double sum = 0, squares = 0, worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        sum += x[i];
        squares += double{x[i]} * x[i];
        ASSERT_FALSE(std::isnan(y[i])) << "row " << r << ", id " << i;
        worst = std::max(worst, std::abs(double{x[i]} - y[i]));
      }
      const auto n = static_cast<double>(x.size());
      const double deviation = std::sqrt(squares / n - sum / n * (sum / n));
      const double unit = p.dtype == DType::kBF16 ? 0x1p-9 : 0x1p-12;
      EXPECT_LE(worst, 80 * unit * deviation) << "row " << r << ", step " << step;
      const int32_t next = rows[static_cast<size_t>(r)].first_position += 1;
      rows[static_cast<size_t>(r)].tokens = {Token(r, next)};
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::pair<const char*, ModelConfig (*)()> models[] = {
      {"gpt2", &Gpt2}, {"llama", &Llama}, {"qwen", &Qwen}};
  const std::pair<int32_t, int32_t> shapes[] = {{1, 20}, {1, 390}, {2, 140}, {3, 30},
                                                {8, 50}, {13, 30}, {33, 20}};
  for (const auto& [name, config] : models) {
    for (const auto& [rows, context] : shapes) {
      if (config == &Qwen && rows == 33) continue;  // slow where kernels are emulated
      cases.push_back({name, config, DType::kBF16, rows, context});
      if (rows == 3 || rows == 13) cases.push_back({name, config, DType::kF16, rows, context});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, DecodePathsTest, testing::ValuesIn(Cases()),
                         [](const auto& param) {
                           const Case& p = param.param;
                           return std::string(p.name) + "_" + std::string(DTypeName(p.dtype)) +
                                  "_rows" + std::to_string(p.rows) + "_context" +
                                  std::to_string(p.context);
                         });

}  // namespace
}  // namespace rally
