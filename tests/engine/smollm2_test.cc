// SmolLM2-135M-Instruct from its GGUF file, against tokenizers and transformers.
// fixtures/make_smollm2_expected.py made the expectations; RALLY_SMOLLM2_GGUF names the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "engine/text/gguf_vocabulary.h"
#include "kernels/device/host_device.h"
#include "tests/testing/collecting_sink.h"

namespace rally {
namespace {

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RALLY_SMOLLM2_GGUF");
    if (path == nullptr) GTEST_SKIP() << "RALLY_SMOLLM2_GGUF does not name the model's file";
    path_ = path;
    std::ifstream file(RALLY_SOURCE_DIR "/tests/fixtures/smollm2_expected.json");
    expected_ = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(expected_.is_discarded());
    auto gguf = OpenGguf(path_);
    ASSERT_TRUE(gguf.ok()) << gguf.status();
    auto fields = ReadGgufVocabulary(*gguf);
    ASSERT_TRUE(fields.ok()) << fields.status();
    auto tokenizer = MakeGgufTokenizer(*fields);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::string path_;
  nlohmann::json expected_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SmolLm2Test, IdsOfFivePromptsEqualThoseOfTokenizers) {
  ASSERT_GE(expected_["encodings"].size(), 5u);
  for (const auto& e : expected_["encodings"]) {
    const std::vector<int32_t> ids = e["ids"];
    EXPECT_EQ(tokenizer_->Encode(e["text"].get<std::string>(), {.parse_special_tokens = true}), ids)
        << e["text"];
  }
}

TEST_F(SmolLm2Test, GreedyTokensInFp32EqualThoseOfTransformers) {
  auto device = *NewHostDevice({.threads = 2});
  auto source = OpenModel(path_, LoadFormat::kAuto, 0);
  ASSERT_TRUE(source.ok()) << source.status();
  auto model = Transformer::Create(*device, *std::move(source), DType::kF32);
  ASSERT_TRUE(model.ok()) << model.status();
  auto engine = Engine::Create({}, std::move(device), *std::move(model), &tokenizer_->vocabulary());
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_GE(expected_["generations"].size(), 3u);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const auto& g : expected_["generations"]) {
    RequestSpec spec;
    spec.prompt_ids = g["ids"].get<std::vector<int32_t>>();
    spec.sampling.temperature = 0;
    spec.stop.max_tokens = static_cast<int32_t>(g["greedy"].size());
    spec.stop.ignore_eos = true;
    spec.arrival = MonotonicClock::Get().Now();
    sinks.push_back(std::make_shared<CollectingSink>());
    ASSERT_TRUE((*engine)->Submit(std::move(spec), sinks.back()).ok());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto& g = expected_["generations"][i];
    sinks[i]->WaitForFinish();
    const std::vector<int32_t> greedy = g["greedy"];
    ASSERT_EQ(greedy.size(), 48u);
    EXPECT_EQ(sinks[i]->ids(), greedy) << g["prompt"];
    EXPECT_EQ(sinks[i]->text(), tokenizer_->Decode(greedy, false));
  }
}

}  // namespace
}  // namespace rally
