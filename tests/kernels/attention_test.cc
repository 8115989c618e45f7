// KV append and attention over a paged cache, against a plain softmax in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kernels/attention_fixture.h"

namespace rally {
namespace {

class AttentionTest : public testing::TestWithParam<DType> {};

// Decode rows, chunks and whole prompts in one step; group sizes on both sides of a vector.
TEST_P(AttentionTest, MatchesAPlainSoftmax) {
  const std::vector<AttentionRow> rows = {{1, 0, 1}, {2, 37, 1}, {3, 66, 75}};
  for (const AttentionShape& shape :
       {AttentionShape{9, 3, 64, 16, 0}, AttentionShape{4, 4, 8, 4, 0},
        AttentionShape{5, 1, 24, 3, 0}, AttentionShape{12, 1, 40, 16, 0},
        AttentionShape{2, 2, 256, 16, 0}, AttentionShape{70, 1, 8, 16, 0}}) {
    AttentionFixture f(shape, GetParam(), rows);
    f.Append();
    f.Attend();
    f.Check();
  }
}

TEST_P(AttentionTest, WindowsHideWhatIsOlder) {
  const std::vector<AttentionRow> rows = {{1, 120, 1}, {2, 0, 100}, {3, 30, 2}};
  for (const int32_t window : {1, 5, 63, 64, 65, 1000}) {
    AttentionFixture f({4, 2, 16, 4, window}, GetParam(), rows);
    f.Append();
    f.Attend();
    f.Check();
  }
}

// All of the pool that no row has written is NaN in every test here; this one shows that not a bit
// of the output depends on it.
TEST_P(AttentionTest, RecycledMemoryDoesNotMatter) {
  const std::vector<AttentionRow> rows = {{1, 5, 1}, {2, 17, 9}};
  AttentionFixture nan({6, 2, 16, 4, 0}, GetParam(), rows);
  AttentionFixture zero({6, 2, 16, 4, 0}, GetParam(), rows, std::byte{0});
  for (AttentionFixture* f : {&nan, &zero}) {
    f->Append();
    f->Attend();
  }
  nan.Check();
  EXPECT_EQ(nan.out().bytes(), zero.out().bytes());
}

TEST_P(AttentionTest, AppendWritesItsTokensAndNothingElse) {
  const std::vector<AttentionRow> rows = {{1, 14, 5}, {3, 3, 1}};
  const AttentionShape shape{4, 2, 8, 16, 0};
  AttentionFixture f(shape, GetParam(), rows);
  const std::vector<std::byte> before = f.pool();
  f.Append();
  int32_t token = 0;
  for (const AttentionRow& row : rows) {
    for (int32_t i = 0; i < row.tokens; ++i, ++token) {
      for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
        for (int32_t h = 0; h < 2; ++h) {
          for (int32_t d = 0; d < 8; ++d) {
            ASSERT_EQ(f.Stored(row, row.first_position + i, side, h, d),
                      f.FromQkv(token, side, h, d));
          }
        }
      }
    }
  }
  size_t changed = 0;
  const std::vector<int32_t> blocks = f.BlocksOfRows();
  const auto block_bytes = static_cast<size_t>(f.kv().block_bytes());
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == f.pool()[i]) continue;
    ++changed;
    const auto block = static_cast<int32_t>(i / block_bytes);
    ASSERT_NE(std::find(blocks.begin(), blocks.end(), block), blocks.end()) << "block " << block;
  }
  EXPECT_LE(changed, 6u * 2 * 2 * 8 * DTypeBytes(GetParam()));  // tokens, sides, heads, values
  EXPECT_GT(changed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

}  // namespace
}  // namespace rally
