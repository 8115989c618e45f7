#include "engine/text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/unicode_nfc.h"

namespace rally {
namespace {

constexpr const char* kR = "\xEF\xBF\xBD";

std::string Repeat(const std::string& text, size_t times) {
  std::string repeated;
  for (size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

// The Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalInvalidParts) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\xA6\x99", "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\xA6\x99"},
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", Repeat(kR, 8) + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", Repeat(kR, 8) + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", Repeat(kR, 5) + "A" + Repeat(kR, 2) + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", Repeat(kR, 4) + "A"},
      {"x\xF0\x9F\xA6", std::string("x") + kR},
      {"\xC3", kR},
  };
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(ReplaceInvalidUtf8(bytes), expected);
}

TEST(Utf8, DecodesEveryCodePointLength) {
  const std::pair<std::string, char32_t> cases[] = {
      {"A", 0x41}, {"\xC3\xA9", 0xE9}, {"\xEF\xBF\xBD", 0xFFFD}, {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
  for (const auto& [bytes, code_point] : cases) {
    size_t length = 0;
    EXPECT_EQ(FirstCodePoint(bytes + "x", &length), code_point);
    EXPECT_EQ(length, bytes.size());
  }
}

TEST(UnicodeNfc, ComposesAndReorders) {
  EXPECT_EQ(ToNfc("plain caf\xC3\xA9"), "plain caf\xC3\xA9");
  EXPECT_EQ(ToNfc("e\xCC\x81"), "\xC3\xA9");                                 // e + acute
  EXPECT_EQ(ToNfc("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"), "\xEA\xB0\x81");  // Hangul jamo
  EXPECT_EQ(ToNfc("\xE2\x84\xA6"), "\xCE\xA9");                              // ohm sign
  EXPECT_EQ(ToNfc("\xE0\xA5\x98"), "\xE0\xA4\x95\xE0\xA4\xBC");  // excluded from composition
  // a + acute (class 230) + dot below (220): the dot comes first and composes.
  EXPECT_EQ(ToNfc("a\xCC\x81\xCC\xA3"), "\xE1\xBA\xA1\xCC\x81");
}

// An insertion sort would take minutes.
TEST(UnicodeNfc, SortsAMegabyteOfMarks) {
  constexpr size_t kPairs = 1 << 18;
  const std::string text = Repeat("\xCC\x81\xCC\xA3", kPairs);
  EXPECT_EQ(ToNfc(text), Repeat("\xCC\xA3", kPairs) + Repeat("\xCC\x81", kPairs));
}

TEST(ByteAlphabet, SpellsBytes) {
  EXPECT_EQ(BytesOfSpelledPiece("\xC4\xA0the"), " the");  // U+0120
  EXPECT_EQ(BytesOfSpelledPiece("\xC4\x8A"), "\n");       // U+010A
  EXPECT_EQ(BytesOfSpelledPiece("\xC3\xA2\xC4\xA2\xC2\xAC"), "\xE2\x80\xAC");
  EXPECT_EQ(BytesOfSpelledPiece("\xC5\x83"), "\xAD");   // U+0143, the last letter
  EXPECT_EQ(BytesOfSpelledPiece("a b"), std::nullopt);  // a blank is no letter
  EXPECT_EQ(BytesOfSpelledPiece("\xE4\xB8\xAD"), std::nullopt);
  EXPECT_EQ(BytesOfSpelledPiece("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace rally
