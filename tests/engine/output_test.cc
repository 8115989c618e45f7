#include "engine/output.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/emitter.h"

namespace rally {
namespace {

class CollectingSink : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t> ids, std::string_view text) override {
    deltas.push_back({{ids.begin(), ids.end()}, std::string(text)});
  }
  void OnFinish(const Finish&) override { ++finishes; }

  struct Delta {
    std::vector<int32_t> ids;
    std::string text;
  };
  std::vector<Delta> deltas;
  int finishes = 0;
};

// Ids 0..3 are the bytes of an emoji, 4 and 5 are letters.
Vocabulary ByteVocabulary() {
  std::vector<Vocabulary::Token> tokens;
  for (const char* bytes : {"\xF0", "\x9F", "\xA6", "\x99", "a", "b"})
    tokens.push_back({bytes, false});
  return Vocabulary(std::move(tokens));
}

TEST(OutputTest, ACodePointOverFourTokensComesWhole) {
  const Vocabulary vocabulary = ByteVocabulary();
  auto sink = std::make_shared<CollectingSink>();
  Output output(8, sink, &vocabulary);
  for (int id = 0; id < 4; ++id) {
    output.Append(id, id + 1);
    output.Pump();
  }
  ASSERT_EQ(sink->deltas.size(), 4u) << "ids go out while their text waits";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sink->deltas[i].text, "");
  EXPECT_EQ(sink->deltas[3].text, "\xF0\x9F\xA6\x99");
}

TEST(OutputTest, HeldTextWaitsAndIsCutByTheEnd) {
  const Vocabulary vocabulary = ByteVocabulary();
  auto sink = std::make_shared<CollectingSink>();
  Output output(8, sink, &vocabulary);
  output.Append(4, 1);
  output.Append(5, 1);  // "b" could begin a stop string
  EXPECT_FALSE(output.Pump());
  EXPECT_EQ(sink->deltas[0].text, "a");
  output.End({}, 1);
  EXPECT_TRUE(output.Pump());
  EXPECT_EQ(sink->deltas.size(), 1u) << "the stop string is never sent";
  EXPECT_EQ(sink->finishes, 1);
  EXPECT_TRUE(output.Pump());
  EXPECT_EQ(sink->finishes, 1);
}

TEST(OutputTest, AnOutputCutInsideACodePointEndsWithAReplacement) {
  const Vocabulary vocabulary = ByteVocabulary();
  auto sink = std::make_shared<CollectingSink>();
  Output output(8, sink, &vocabulary);
  output.Append(0, 1);
  output.Append(1, 2);
  output.End({}, 2);
  output.Pump();
  EXPECT_EQ(sink->deltas.back().text, "\xEF\xBF\xBD");
}

TEST(ThreadedEmitterTest, DeliversEverythingInOrder) {
  const Vocabulary vocabulary = ByteVocabulary();
  constexpr int kEmitters = 3;
  constexpr int kStreams = 50;
  constexpr int kTokens = 200;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  std::vector<std::shared_ptr<Output>> outputs;
  {
    ThreadedEmitter emitter(kEmitters, kStreams);
    for (int i = 0; i < kStreams; ++i) {
      sinks.push_back(std::make_shared<CollectingSink>());
      outputs.push_back(std::make_shared<Output>(kTokens, sinks[i], &vocabulary));
      outputs[i]->set_emitter(i % kEmitters);
    }
    for (int t = 0; t < kTokens; ++t) {
      for (auto& output : outputs) {
        output->Append(4 + t % 2, t + 1);
        if (t + 1 == kTokens) output->End({}, kTokens);
        emitter.Notify(output);
      }
      emitter.Flush();
    }
  }
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->finishes, 1);
    std::string text;
    for (const auto& delta : sink->deltas) text += delta.text;
    ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
    for (int t = 0; t < kTokens; ++t) ASSERT_EQ(text[t], t % 2 == 0 ? 'a' : 'b');
  }
}

}  // namespace
}  // namespace rally
