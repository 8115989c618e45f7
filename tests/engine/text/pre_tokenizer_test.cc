#include "engine/text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rally {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Split(const std::vector<SplitRule>& rules, const std::string& text) {
  const auto pre_tokenizer = PreTokenizer::Create(rules);
  std::vector<std::string> pieces;
  for (std::string_view piece : pre_tokenizer->Split(text)) pieces.emplace_back(piece);
  return pieces;
}

// Each rule against the pieces that `tokenizers` gives for the same regular expression.
TEST(PreTokenizer, Gpt2GivesTheLastBlankToTheNextPiece) {
  const std::vector<SplitRule> rule = {SplitRule::kGpt2};
  EXPECT_THAT(Split(rule, "a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(Split(rule, "    return  x"), ElementsAre("   ", " return", " ", " x"));
  EXPECT_THAT(Split(rule, "\n\n  x"), ElementsAre("\n\n ", " x"));
  EXPECT_THAT(Split(rule, "x   "), ElementsAre("x", "   "));
  EXPECT_THAT(Split(rule, "a\t\tb\r\n"), ElementsAre("a", "\t", "\t", "b", "\r\n"));
  EXPECT_THAT(Split(rule, "a\xC2\xA0 b"), ElementsAre("a", "\xC2\xA0", " b"));  // NBSP
  EXPECT_THAT(Split(rule, "it's I'LL"), ElementsAre("it", "'s", " I", "'", "LL"));
  EXPECT_THAT(Split(rule, "x12 34!?"), ElementsAre("x", "12", " 34", "!?"));
}

TEST(PreTokenizer, SmolLmCutsDigitsFirst) {
  const std::vector<SplitRule> rules = {SplitRule::kDigit, SplitRule::kGpt2};
  EXPECT_THAT(Split(rules, "a  12"), ElementsAre("a", "  ", "1", "2"));
  EXPECT_THAT(Split(rules, "x1y"), ElementsAre("x", "1", "y"));
}

TEST(PreTokenizer, Llama3) {
  const std::vector<SplitRule> rule = {SplitRule::kLlama3};
  EXPECT_THAT(Split(rule, "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(Split(rule, "I'LL \xC5\xBF'\xC5\xBF"),
              ElementsAre("I", "'LL", " \xC5\xBF", "'\xC5\xBF"));  // U+017F is an s
  EXPECT_THAT(Split(rule, "a(b)\n\n c"), ElementsAre("a", "(b", ")\n\n", " c"));
  EXPECT_THAT(Split(rule, "  \r\n  x"), ElementsAre("  \r\n", " ", " x"));
}

TEST(PreTokenizer, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(Split({SplitRule::kQwen2}, "a 12"), ElementsAre("a", " ", "1", "2"));
}

TEST(PreTokenizer, ClassesAreThoseOfCurrentUnicode) {
  const std::vector<SplitRule> rule = {SplitRule::kGpt2};
  EXPECT_THAT(Split(rule, "a\xE1\xA0\x8E"), ElementsAre("a", "\xE1\xA0\x8E"));  // U+180E: no blank
  EXPECT_THAT(Split(rule, " \xE1\xA0\x8E"), ElementsAre(" \xE1\xA0\x8E"));
  EXPECT_THAT(Split(rule, "a\xF0\xB1\x8D\x90"), ElementsAre("a\xF0\xB1\x8D\x90"));  // U+31350
  EXPECT_THAT(Split(rule, "1\xF0\x9E\x93\xB0"), ElementsAre("1\xF0\x9E\x93\xB0"));  // U+1E4F0
}

TEST(PreTokenizer, LongRunsStayWhole) {
  for (const char* unit : {"a", "_", " ", "\n", "\xE4\xB8\xAD"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    for (SplitRule rule : {SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2}) {
      EXPECT_THAT(Split({rule}, text), ElementsAre(text));
    }
  }
}

TEST(PreTokenizer, KnowsTheNamesOfGgufFiles) {
  using Rules = std::vector<SplitRule>;
  EXPECT_EQ(SplitRulesOfGgufPre("default"), Rules{SplitRule::kGpt2});
  EXPECT_EQ(SplitRulesOfGgufPre("smollm"), (Rules{SplitRule::kDigit, SplitRule::kGpt2}));
  EXPECT_EQ(SplitRulesOfGgufPre("llama-v3"), Rules{SplitRule::kLlama3});
  EXPECT_EQ(SplitRulesOfGgufPre("deepseek-r1-qwen"), Rules{SplitRule::kQwen2});
  EXPECT_EQ(SplitRulesOfGgufPre("tekken"), std::nullopt);
  EXPECT_EQ(SplitRuleOfRegex("(a+)+$"), std::nullopt);
}

}  // namespace
}  // namespace rally
