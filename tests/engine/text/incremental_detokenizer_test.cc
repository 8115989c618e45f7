#include "engine/text/incremental_detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/text/utf8.h"

namespace rally {
namespace {

bool IsValid(const std::string& text) { return ReplaceInvalidUtf8(text) == text; }

TEST(IncrementalDetokenizer, WaitsForWholeCodePoints) {
  IncrementalDetokenizer detokenizer;
  for (const char* byte : {"\xF0", "\x9F", "\xA6"}) {
    detokenizer.Append(byte);
    EXPECT_EQ(detokenizer.TakeText(detokenizer.raw_bytes()), "");
  }
  detokenizer.Append("\x99!");
  EXPECT_EQ(detokenizer.TakeText(detokenizer.raw_bytes()), "\xF0\x9F\xA6\x99!");
  EXPECT_EQ(detokenizer.Finish(detokenizer.raw_bytes()), "");
}

TEST(IncrementalDetokenizer, KeepsALeadingBlank) {
  IncrementalDetokenizer detokenizer;
  detokenizer.Append(" Paris");
  EXPECT_EQ(detokenizer.TakeText(6), " Paris");
}

TEST(IncrementalDetokenizer, DanglingBytesBecomeOneReplacement) {
  IncrementalDetokenizer detokenizer;
  detokenizer.Append("ok\xF0\x9F");
  EXPECT_EQ(detokenizer.TakeText(4), "ok");
  EXPECT_EQ(detokenizer.Finish(4), "\xEF\xBF\xBD");
}

TEST(IncrementalDetokenizer, InvalidBytesAreSentAsSoonAsTheyAreCertain) {
  IncrementalDetokenizer detokenizer;
  detokenizer.Append("a\xFF");
  EXPECT_EQ(detokenizer.TakeText(2), "a\xEF\xBF\xBD");
  detokenizer.Append("\xE2\x96");
  EXPECT_EQ(detokenizer.TakeText(4), "");
  detokenizer.Append("z");
  EXPECT_EQ(detokenizer.TakeText(5), "\xEF\xBF\xBDz");
}

TEST(IncrementalDetokenizer, HeldTextIsSentLaterOrDropped) {
  IncrementalDetokenizer detokenizer;
  detokenizer.Append("text</sto");
  EXPECT_EQ(detokenizer.TakeText(4), "text");
  EXPECT_EQ(detokenizer.TakeText(4), "");
  detokenizer.Append("ry");
  EXPECT_EQ(detokenizer.TakeText(11), "</story");
  detokenizer.Append("</stop>");
  EXPECT_EQ(detokenizer.Finish(11), "");
  EXPECT_EQ(detokenizer.raw_bytes(), 18);
}

std::string RandomBytes(std::mt19937& random) {
  const std::vector<std::string> parts = {"a",
                                          " ",
                                          "\xC3\xA9",
                                          "\xE4\xB8\xAD",
                                          "\xF0\x9F\xA6\x99",
                                          "\xFF",
                                          "\xE2\x96",
                                          "\xF0\x9F\xA6",
                                          "\x80",
                                          "\xC0",
                                          "\xED\xA0\x80",
                                          "\n"};
  std::string bytes;
  for (size_t i = random() % 12; i > 0; --i) bytes += parts[random() % parts.size()];
  return bytes;
}

// Every way to cut a short text into tokens: bit i cuts after byte i.
TEST(IncrementalDetokenizer, EveryCutGivesTheSameText) {
  const std::string bytes = "a\xF0\x9F\xA6\x99\xE2\x96\xC3\xA9\xFF!";
  const std::string expected = ReplaceInvalidUtf8(bytes);
  for (uint32_t cuts = 0; cuts < 1u << (bytes.size() - 1); ++cuts) {
    IncrementalDetokenizer detokenizer;
    std::string text;
    std::string token;
    for (size_t i = 0; i < bytes.size(); ++i) {
      token += bytes[i];
      if (i + 1 < bytes.size() && (cuts >> i & 1) == 0) continue;
      detokenizer.Append(token);
      token.clear();
      const std::string delta = detokenizer.TakeText(detokenizer.raw_bytes());
      ASSERT_TRUE(IsValid(delta));
      text += delta;
    }
    ASSERT_EQ(text + detokenizer.Finish(detokenizer.raw_bytes()), expected) << cuts;
  }
}

TEST(IncrementalDetokenizer, AnyLimitsGiveTheTextUpToTheEnd) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::string bytes = RandomBytes(random);
    IncrementalDetokenizer detokenizer;
    std::string text;
    int64_t limit = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 4;
      detokenizer.Append(std::string_view(bytes).substr(at, size));
      at += size;
      limit += static_cast<int64_t>(random() % (detokenizer.raw_bytes() - limit + 1));
      const std::string delta = detokenizer.TakeText(limit);
      ASSERT_TRUE(IsValid(delta));
      text += delta;
    }
    const int64_t end = limit + static_cast<int64_t>(random() % (bytes.size() - limit + 1));
    text += detokenizer.Finish(end);
    ASSERT_EQ(text, ReplaceInvalidUtf8(bytes.substr(0, end))) << round;
  }
}

}  // namespace
}  // namespace rally
