#include "engine/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace rally {
namespace {

using State = StopMatcher::State;

TEST(StopMatcher, FindsAStringThatComesInPieces) {
  const StopMatcher matcher(std::vector<std::string>{"</stop>"});
  StopMatcher::Result result = matcher.Advance(State(), "text</");
  EXPECT_FALSE(result.matched);
  EXPECT_EQ(matcher.held_bytes(result.next), 2);
  result = matcher.Advance(result.next, "sto");
  EXPECT_EQ(matcher.held_bytes(result.next), 5);
  result = matcher.Advance(result.next, "p>more");
  EXPECT_TRUE(result.matched);
  EXPECT_EQ(result.string_index, 0);
  EXPECT_EQ(result.match_begin, -5);
  EXPECT_EQ(result.match_end, 2);
}

TEST(StopMatcher, HoldsNoMoreThanATrueBeginning) {
  const StopMatcher matcher(std::vector<std::string>{"abab#", "bc"});
  const std::string text = "xababc";
  const int64_t held[] = {0, 1, 2, 3, 4};
  State state;
  for (size_t i = 0; i < 5; ++i) {
    state = matcher.Advance(state, text.substr(i, 1)).next;
    EXPECT_EQ(matcher.held_bytes(state), held[i]) << i;
  }
  const StopMatcher::Result result = matcher.Advance(state, "c");
  EXPECT_TRUE(result.matched);
  EXPECT_EQ(result.string_index, 1);
  EXPECT_EQ(result.match_begin, -1);
  EXPECT_EQ(matcher.held_bytes(result.next), 0);
}

TEST(StopMatcher, EarliestEndThenLongest) {
  const StopMatcher matcher(std::vector<std::string>{"b", "abc", "ab", "ab"});
  const StopMatcher::Result result = matcher.Advance(State(), "zabc");
  EXPECT_EQ(result.string_index, 2);
  EXPECT_EQ(result.match_begin, 1);
  EXPECT_EQ(result.match_end, 3);
  // Passed over, the longer string is still found.
  EXPECT_EQ(matcher.held_bytes(result.next), 2);
  EXPECT_EQ(matcher.Advance(result.next, "c").string_index, 1);
}

TEST(StopMatcher, NoStringsMatchNothing) {
  const StopMatcher matcher(std::vector<std::string>{""});
  const StopMatcher::Result result = matcher.Advance(State(), "anything \xFF");
  EXPECT_FALSE(result.matched);
  EXPECT_EQ(matcher.held_bytes(result.next), 0);
}

struct Match {
  int64_t begin, end;
  int32_t index;
  bool operator==(const Match&) const = default;
};

// All ends of stop strings in `text`, at each the longest string, the first of equal ones.
std::vector<Match> FindNaively(const std::vector<std::string>& stops, const std::string& text) {
  std::vector<Match> matches;
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string before = text.substr(0, end);
    int32_t best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool longer = best < 0 || stops[i].size() > stops[best].size();
      if (before.ends_with(stops[i]) && longer) best = static_cast<int32_t>(i);
    }
    if (best < 0) continue;
    matches.push_back(
        {static_cast<int64_t>(end - stops[best].size()), static_cast<int64_t>(end), best});
  }
  return matches;
}

int64_t HeldNaively(const std::vector<std::string>& stops, const std::string& text) {
  int64_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t size = 1; size < stop.size(); ++size) {
      if (text.ends_with(stop.substr(0, size))) held = std::max<int64_t>(held, size);
    }
  }
  return held;
}

TEST(StopMatcher, EqualsNaiveSearchOverAnyChunks) {
  std::mt19937 random(3);
  const auto word = [&](size_t max_size, int letters) {
    std::string text(1 + random() % max_size, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % letters);
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    const int letters = 1 + static_cast<int>(random() % 3);
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = word(6, letters);
    const std::string text = word(60, letters + 1);
    const StopMatcher matcher(stops);
    std::vector<Match> matches;
    State state;
    size_t position = 0;
    while (position < text.size()) {
      const std::string chunk = text.substr(position, 1 + random() % 7);
      const StopMatcher::Result result = matcher.Advance(state, chunk);
      state = result.next;
      const int64_t base = static_cast<int64_t>(position);
      if (result.matched) {
        matches.push_back(
            {base + result.match_begin, base + result.match_end, result.string_index});
        position += static_cast<size_t>(result.match_end);
      } else {
        position += chunk.size();
      }
      ASSERT_EQ(matcher.held_bytes(state), HeldNaively(stops, text.substr(0, position)));
    }
    ASSERT_EQ(matches, FindNaively(stops, text));
  }
}

}  // namespace
}  // namespace rally
