#include "engine/text/bpe_merge.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace rally {
namespace {

// The definition: look for the lowest rank, leftmost, merge, begin again.
std::vector<int32_t> MergeNaively(const MergeTable& merges, std::vector<int32_t> ids) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge* merge = merges.Find(ids[i], ids[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      best_at = i;
    }
    if (best == nullptr) return ids;
    ids[best_at] = best->id;
    ids.erase(ids.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

TEST(BpeMerge, EqualsTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    // Each merge makes a new token of two older ones, as training does.
    MergeTable merges;
    const int32_t letters = 1 + static_cast<int32_t>(random() % 4);
    const int32_t tokens = letters + static_cast<int32_t>(random() % 30);
    for (int32_t id = letters; id < tokens; ++id) {
      const int32_t left = static_cast<int32_t>(random() % id);
      const int32_t right = static_cast<int32_t>(random() % id);
      if (merges.Find(left, right) == nullptr) {
        merges.Set(left, right, {static_cast<uint32_t>(id), id});
      }
    }
    BpeMerger merger(merges);
    for (int text = 0; text < 20; ++text) {
      std::vector<int32_t> symbols(random() % 60);
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % letters);
      std::vector<int32_t> ids = {-7};
      merger.Append(symbols, ids);
      std::vector<int32_t> expected = MergeNaively(merges, symbols);
      expected.insert(expected.begin(), -7);
      ASSERT_EQ(ids, expected) << "round " << round;
    }
  }
}

TEST(BpeMerge, RankedPiecesMergeByTheRankOfTheUnion) {
  const std::vector<RankedPiece> pieces = {{"a", 0, 0},  {"b", 1, 1},  {"c", 2, 2},
                                           {"bc", 3, 3}, {"ab", 4, 4}, {"abc", 5, 5}};
  const MergeTable merges = MergesOfRankedPieces(pieces);
  BpeMerger merger(merges);
  std::vector<int32_t> ids;
  merger.Append(std::vector<int32_t>{0, 1, 2, 0, 1}, ids);  // a b c a b
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 4}));
}

TEST(BpeMerge, AMegabyteOfOneLetter) {
  MergeTable merges;
  for (int32_t id = 1; id <= 10; ++id) {
    merges.Set(id - 1, id - 1, {static_cast<uint32_t>(id), id});  // doubles each time
  }
  BpeMerger merger(merges);
  std::vector<int32_t> ids;
  merger.Append(std::vector<int32_t>(1 << 20, 0), ids);
  EXPECT_EQ(ids, std::vector<int32_t>(1 << 10, 10));
}

}  // namespace
}  // namespace rally
