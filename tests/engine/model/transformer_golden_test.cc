// The transformer on each device against transformers (PyTorch, fp32): logits at every position
// and 64 greedy tokens, for each architecture. fixtures/make_checkpoints.py made the expectations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/host_device.h"
#include "tests/engine/model/step_driver.h"

namespace rally {
namespace {

constexpr int32_t kRows = 3;

struct Prompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::vector<float> logits;  // (ids, V)
};

struct Golden {
  std::string device;
  std::string model;   // folder or file under fixtures/checkpoints
  std::string prefix;  // of expected.json and logits.bin
};

class TransformerGoldenTest : public testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    const std::string folder = RALLY_SOURCE_DIR "/tests/fixtures/checkpoints/";
    if (GetParam().device == "host") {
      device_ = *NewHostDevice({.threads = 2});
    } else {
      std::string why_none;
      if (CudaDeviceCount(&why_none) == 0) GTEST_SKIP() << "no GPU: " << why_none;
      absl::StatusOr<std::unique_ptr<Device>> device = NewCudaDevice({});
      ASSERT_TRUE(device.ok()) << device.status();
      device_ = *std::move(device);
    }
    absl::StatusOr<ModelSource> source = OpenModel(folder + GetParam().model, LoadFormat::kAuto, 0);
    ASSERT_TRUE(source.ok()) << source.status();
    auto model = Transformer::Create(*device_, *std::move(source), DType::kF32);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    driver_ = std::make_unique<StepDriver>(*device_, *model_, kRows, 64, 64, 4);
    ReadExpectations(folder + GetParam().prefix);
  }

  void ReadExpectations(const std::string& prefix) {
    std::ifstream json_file(prefix + "expected.json");
    std::ifstream logits_file(prefix + "logits.bin", std::ios::binary);
    const auto json = nlohmann::json::parse(json_file, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(json.is_discarded()) << prefix;
    tolerance_ = 1e-4f * json["logits_std"].get<float>();
    for (const auto& p : json["prompts"]) {
      Prompt prompt{p["ids"], p["greedy"], {}};
      prompt.logits.resize(prompt.ids.size() * static_cast<size_t>(model_->vocab_size()));
      logits_file.read(reinterpret_cast<char*>(prompt.logits.data()),
                       static_cast<std::streamsize>(prompt.logits.size() * sizeof(float)));
      ASSERT_TRUE(logits_file.good()) << prefix;
      prompts_.push_back(std::move(prompt));
    }
    ASSERT_FALSE(prompts_.empty());
  }

  void ExpectLogits(const Prompt& prompt, size_t position, std::span<const float> actual) {
    const float* expected = prompt.logits.data() + position * actual.size();
    float worst = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      worst = std::max(worst, std::abs(actual[i] - expected[i]));
      ASSERT_FALSE(std::isnan(actual[i])) << "position " << position;
    }
    EXPECT_LE(worst, tolerance_) << "prompt of " << prompt.ids.size() << ", position " << position;
  }

  // Feeds the prompt in chunks and compares the logits of every position.
  void Prefill(const Prompt& prompt, int32_t slot, size_t chunk) {
    for (size_t first = 0; first < prompt.ids.size(); first += chunk) {
      const size_t count = std::min(chunk, prompt.ids.size() - first);
      const DriverRow row{.slot = slot,
                          .first_position = static_cast<int32_t>(first),
                          .tokens = {prompt.ids.begin() + static_cast<int64_t>(first),
                                     prompt.ids.begin() + static_cast<int64_t>(first + count)},
                          .sample_every_token = true};
      driver_->Run({&row, 1});
      for (size_t i = 0; i < count; ++i) {
        ExpectLogits(prompt, first + i, driver_->logits(static_cast<int32_t>(i)));
      }
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<StepDriver> driver_;
  std::vector<Prompt> prompts_;
  float tolerance_ = 0;
};

TEST_P(TransformerGoldenTest, LogitsOfWholePrompts) {
  for (const Prompt& prompt : prompts_) Prefill(prompt, 1, prompt.ids.size());
}

TEST_P(TransformerGoldenTest, LogitsOfPromptsInChunks) {
  for (const Prompt& prompt : prompts_) Prefill(prompt, 2, 7);
}

// All prompts at once, one slot each; each step takes the slots' own last tokens.
TEST_P(TransformerGoldenTest, GreedyTokensOfABatch) {
  ASSERT_LT(prompts_.size(), size_t{kRows} + 1);
  std::vector<DriverRow> rows;
  for (size_t p = 0; p < prompts_.size(); ++p) {
    rows.push_back({.slot = static_cast<int32_t>(p) + 1, .tokens = prompts_[p].ids});
  }
  for (size_t i = 0; i < prompts_[0].greedy.size(); ++i) {
    driver_->Run(rows);
    for (size_t p = 0; p < prompts_.size(); ++p) {
      const OutcomeRow& outcome = driver_->outcome(static_cast<int32_t>(p));
      ASSERT_EQ(outcome.slot, rows[p].slot);
      ASSERT_EQ(outcome.generation, 7u);
      ASSERT_EQ(outcome.flags, 0);
      ASSERT_EQ(outcome.token, prompts_[p].greedy[i]) << "prompt " << p << ", token " << i;
      rows[p].first_position += static_cast<int32_t>(rows[p].tokens.size());
      rows[p].tokens = {kTokenFromSlot};
    }
  }
}

std::vector<Golden> Goldens() {
  const std::pair<const char*, const char*> checkpoints[] = {
      {"gpt2_tiny", "gpt2_tiny/"},
      {"llama_tiny", "llama_tiny/"},
      {"llama3_tiny", "llama3_tiny/"},
      {"qwen2_tiny", "qwen2_tiny/"},
      {"qwen2_tiny_sharded", "qwen2_tiny/"},
      {"qwen3_tiny", "qwen3_tiny/"},
      {"llama_tiny.gguf", "llama_tiny.gguf."},
      {"qwen2_tiny.gguf", "qwen2_tiny.gguf."}};
  std::vector<Golden> goldens;
  for (const char* device : {"host", "cuda"}) {
    for (const auto& [model, prefix] : checkpoints) goldens.push_back({device, model, prefix});
  }
  return goldens;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TransformerGoldenTest, testing::ValuesIn(Goldens()),
                         [](const auto& param) {
                           std::string name = param.param.device + "_" + param.param.model;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace rally
