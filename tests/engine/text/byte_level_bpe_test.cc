#include "engine/text/byte_level_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/spelled_bpe.h"

namespace rally {
namespace {

using ::testing::ElementsAre;

constexpr EncodeOptions kPlain = {.add_special_tokens = false, .parse_special_tokens = false};
constexpr EncodeOptions kParse = {.add_special_tokens = false, .parse_special_tokens = true};

// a 0, b 1, c 2, blank 3, ab 4, abc 5 (no merge makes it), e 6, acute é as one piece 7 and its
// bytes 8 and 9; <|end|> 10 special, <tool> 11 not.
SpelledBpe Spelled() {
  SpelledBpe spelled;
  spelled.source = "test";
  spelled.pieces = {"a",        "b",       "c", "\xC4\xA0", "ab", "abc", "e", "\xC3\x83\xC2\xA9",
                    "\xC3\x83", "\xC2\xA9"};
  spelled.merges = {{"a", "b"}, {"\xC3\x83", "\xC2\xA9"}};
  AddedToken end;
  end.content = "<|end|>";
  end.id = 10;
  end.special = true;
  AddedToken tool;
  tool.content = "<tool>";
  tool.id = 11;
  spelled.added_tokens = {end, tool};
  return spelled;
}

std::unique_ptr<ByteLevelBpe> Make(const ByteLevelBpeOptions& options = {}) {
  BpeParts parts = *MakeBpeParts(Spelled(), Spelling::kByteLevel);
  parts.prefix_ids = {10};
  parts.eos_ids = {10};
  return *ByteLevelBpe::Create(std::move(parts), options);
}

TEST(ByteLevelBpe, MergesAndDecodes) {
  const auto tokenizer = Make();
  EXPECT_THAT(tokenizer->Encode("ab ab", kPlain), ElementsAre(4, 3, 4));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("ab c\xC3\xA9", {}), false), "ab c\xC3\xA9");
  EXPECT_EQ(tokenizer->vocabulary().TextBytes(3), " ");
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(10));
}

TEST(ByteLevelBpe, IgnoreMergesTakesAWholePiece) {
  EXPECT_THAT(Make()->Encode("abc", kPlain), ElementsAre(4, 2));
  EXPECT_THAT(Make({.ignore_merges = true})->Encode("abc", kPlain), ElementsAre(5));
}

TEST(ByteLevelBpe, ControlTokensInTextArePlainUnlessAskedFor) {
  const auto tokenizer = Make({.ignore_merges = true});
  EXPECT_THAT(tokenizer->Encode("a<|end|>b", kParse), ElementsAre(0, 10, 1));
  // Of "<|end|>" the vocabulary has only the letter e.
  EXPECT_THAT(tokenizer->Encode("a<|end|>b", kPlain), ElementsAre(0, 6, 1));
  // Tokens that are not special are always found.
  EXPECT_THAT(tokenizer->Encode("a<tool>b", kPlain), ElementsAre(0, 11, 1));
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre(10));
  EXPECT_THAT(tokenizer->Encode("", kPlain), ElementsAre());
}

TEST(ByteLevelBpe, SpecialTokensAreLeftOutOfTheText) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0, 10, 1, 99, -1}, false), "ab");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0, 10, 1}, true), "a<|end|>b");
}

TEST(ByteLevelBpe, IncompleteBytesDecodeToOneReplacement) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0, 8}, false), "a\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{8, 9}, false), "\xC3\xA9");
}

TEST(ByteLevelBpe, NormalisesToNfcOnlyIfToldTo) {
  const std::string decomposed = "e\xCC\x81";
  EXPECT_THAT(Make({.nfc = true})->Encode(decomposed, kPlain), ElementsAre(7));
  EXPECT_THAT(Make()->Encode(decomposed, kPlain), ElementsAre(6));
}

TEST(ByteLevelBpe, BytesOutsideTheVocabularyAreUnknownOrLeftOut) {
  EXPECT_THAT(Make()->Encode("axxb", kPlain), ElementsAre(4));
  EXPECT_THAT(Make({.unknown_id = 10})->Encode("axxb", kPlain), ElementsAre(0, 10, 10, 1));
  EXPECT_THAT(Make({.unknown_id = 10, .fuse_unknown = true})->Encode("axxb", kPlain),
              ElementsAre(0, 10, 1));
}

TEST(ByteLevelBpe, PrefixSpace) {
  const auto tokenizer = Make({.add_prefix_space = true});
  EXPECT_THAT(tokenizer->Encode("a", kPlain), ElementsAre(3, 0));
  EXPECT_THAT(tokenizer->Encode(" a", kPlain), ElementsAre(3, 0));
}

TEST(ByteLevelBpe, AddedTokensMayTakeBlanksAlong) {
  SpelledBpe spelled = Spelled();
  spelled.added_tokens[1].lstrip = true;
  spelled.added_tokens[1].rstrip = true;
  const auto tokenizer =
      *ByteLevelBpe::Create(*MakeBpeParts(std::move(spelled), Spelling::kByteLevel), {});
  EXPECT_THAT(tokenizer->Encode("a \n<tool>\xE2\x80\x83 b", kPlain), ElementsAre(0, 11, 1));
}

TEST(SpelledBpe, RefusesContradictions) {
  const auto code = [](const SpelledBpe& spelled) {
    return MakeBpeParts(spelled, Spelling::kByteLevel).status().code();
  };
  EXPECT_EQ(code(Spelled()), absl::StatusCode::kOk);
  SpelledBpe spelled = Spelled();
  spelled.pieces.push_back("ab");
  EXPECT_EQ(code(spelled), absl::StatusCode::kInvalidArgument);  // a token twice
  spelled = Spelled();
  spelled.merges.emplace_back("a", "c");
  EXPECT_EQ(code(spelled), absl::StatusCode::kInvalidArgument);  // "ac" is no token
  spelled = Spelled();
  spelled.added_tokens[1].id = 3;
  EXPECT_EQ(code(spelled), absl::StatusCode::kInvalidArgument);  // 3 is a blank
  spelled = Spelled();
  spelled.added_tokens[1].id = kMaxVocabularySize;
  EXPECT_EQ(code(spelled), absl::StatusCode::kInvalidArgument);
  spelled = Spelled();
  spelled.added_tokens[1].content = "<|end|>";
  EXPECT_EQ(code(spelled), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rally
