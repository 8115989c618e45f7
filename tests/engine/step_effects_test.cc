#include "engine/step_effects.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace rally {
namespace {

class NullSink : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t>, std::string_view) override {}
  void OnFinish(const Finish&) override {}
};

// One running sequence with prompt {1, 2} whose next outcome is resolved. Ids 10.. spell letters.
class ResolveTest : public testing::Test {
 protected:
  ResolveTest() : vocabulary_(MakeVocabulary()) {
    outcome_.header = &header_;
    outcome_.rows = &row_;
    sequence_.state = SequenceState::kRunning;
    sequence_.ids = {1, 2};
    sequence_.prompt_count = 2;
    sequence_.output_limit = 100;
    sequence_.slot = 3;
    sequence_.generation = 9;
    plan_.rows.push_back({.sequence = &sequence_,
                          .first_position = 1,
                          .token_count = 1,
                          .samples = true,
                          .generation = 9});
    row_ = {.slot = 3, .generation = 9, .token = 10, .flags = 0};
  }

  static Vocabulary MakeVocabulary() {
    std::vector<Vocabulary::Token> tokens(20);
    for (int i = 0; i < 10; ++i) tokens[10 + i].bytes = std::string(1, static_cast<char>('a' + i));
    tokens[15].bytes = "xyz";
    return Vocabulary(std::move(tokens));
  }

  void StopAt(std::vector<std::string> strings) {
    sequence_.stop_matcher = std::make_shared<StopMatcher>(strings);
    sequence_.spec.stop.strings = std::move(strings);
  }

  RowEffect ResolveOne() {
    StepEffects effects;
    Resolve(plan_, outcome_, vocabulary_, &effects);
    EXPECT_EQ(effects.rows.size(), 1u);
    return effects.rows[0];
  }

  // Applies a token that does not end the sequence.
  void Take(int32_t token) {
    row_.token = token;
    const RowEffect effect = ResolveOne();
    ASSERT_FALSE(effect.end.has_value());
    sequence_.ids.push_back(token);
    sequence_.stop_state = effect.stop_state;
    sequence_.text_bytes = effect.text_bytes;
  }

  const Vocabulary vocabulary_;
  OutcomeHeader header_;
  OutcomeRow row_;
  StepOutcomeView outcome_;
  Sequence sequence_;
  StepPlan plan_;
};

TEST_F(ResolveTest, ATokenIsOneTokenWithItsText) {
  const RowEffect effect = ResolveOne();
  EXPECT_EQ(effect.kind, RowEffect::Kind::kToken);
  EXPECT_EQ(effect.token, 10);
  EXPECT_EQ(effect.text_bytes, 1);
  EXPECT_EQ(effect.sendable_bytes, 1);
  EXPECT_FALSE(effect.end.has_value());
}

TEST_F(ResolveTest, AnOlderGenerationIsDropped) {
  row_.generation = 8;
  EXPECT_EQ(ResolveOne().kind, RowEffect::Kind::kStale);
}

TEST_F(ResolveTest, AnEndedSequenceHasASurplusRow) {
  sequence_.state = SequenceState::kEnded;
  EXPECT_EQ(ResolveOne().kind, RowEffect::Kind::kSurplus);
}

TEST_F(ResolveTest, StopIdsTellTheModelsFromTheRequests) {
  row_.flags = kOutcomeStopId;
  EXPECT_EQ(ResolveOne().end->reason, FinishReason::kEos);
  sequence_.spec.stop.token_ids = {10};
  const RowEffect effect = ResolveOne();
  EXPECT_EQ(effect.end->reason, FinishReason::kStopToken);
  EXPECT_EQ(effect.end->stop_token_id, 10);
  EXPECT_EQ(effect.end->final_bytes, 0) << "a stop token adds no text";
}

TEST_F(ResolveTest, LengthEndsWithTheLimitsToken) {
  sequence_.output_limit = 1;
  EXPECT_EQ(ResolveOne().end->reason, FinishReason::kLength);
}

TEST_F(ResolveTest, AStopStringIsHeldBackAndCutOff) {
  StopAt({"nope", "bcd"});
  Take(10);         // a
  row_.token = 11;  // b
  EXPECT_EQ(ResolveOne().sendable_bytes, 1) << "'b' may begin the stop string";
  Take(11);
  Take(12);
  row_.token = 13;
  const RowEffect effect = ResolveOne();
  EXPECT_EQ(effect.end->reason, FinishReason::kStopString);
  EXPECT_EQ(effect.end->stop_string_index, 1);
  EXPECT_EQ(effect.end->final_bytes, 1);
}

TEST_F(ResolveTest, AStopStringMayBeginInsideAToken) {
  StopAt({"zab"});
  Take(15);  // xyz
  Take(10);
  row_.token = 11;
  EXPECT_EQ(ResolveOne().end->final_bytes, 2);
}

TEST_F(ResolveTest, AMatchBeforeMinTokensIsPassedOver) {
  StopAt({"a"});
  sequence_.spec.stop.min_tokens = 2;
  Take(10);
  const RowEffect second = ResolveOne();
  EXPECT_EQ(second.end->reason, FinishReason::kStopString);
  EXPECT_EQ(second.end->final_bytes, 1) << "the first 'a' stays in the text";
}

TEST_F(ResolveTest, LogitsThatAreNoNumbersEndTheRequest) {
  row_.flags = kOutcomeNotFinite;
  const RowEffect effect = ResolveOne();
  EXPECT_EQ(effect.kind, RowEffect::Kind::kFailed);
  EXPECT_EQ(effect.end->status.code(), absl::StatusCode::kInternal);
}

TEST_F(ResolveTest, AChunkWithoutASampleTakesNoOutcomeRow) {
  plan_.rows.insert(plan_.rows.begin(),
                    {.sequence = &sequence_, .token_count = 4, .samples = false, .generation = 9});
  StepEffects effects;
  Resolve(plan_, outcome_, vocabulary_, &effects);
  EXPECT_EQ(effects.rows[0].kind, RowEffect::Kind::kPrefill);
  EXPECT_EQ(effects.rows[1].token, 10);
}

}  // namespace
}  // namespace rally
