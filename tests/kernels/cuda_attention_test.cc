// KV append and attention on the GPU against a plain softmax in double precision.
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/attention_fixture.h"
#include "tests/kernels/cuda_op_test.h"

namespace rally {
namespace {

class CudaAttentionTest : public CudaOpTest, public testing::WithParamInterface<DType> {
 protected:
  // Everything that `f` points to moves to the device; the results come back into `f`.
  void AppendAndAttend(AttentionFixture& f) {
    KvAppendArgs append = f.append_args();
    AttentionArgs attend = f.attention_args();
    const auto tokens = static_cast<size_t>(append.rows.max);
    const auto rows = static_cast<size_t>(attend.shape.max_rows);
    attend.record.header = Send(attend.record.header, 1);
    attend.record.rows = Send(attend.record.rows, rows);
    append.rows.count = &attend.record.header->token_count;
    append.tokens = Send(append.tokens, tokens);
    attend.qkv.data = Send(static_cast<const std::byte*>(attend.qkv.data), f.qkv().bytes().size());
    attend.out.data = Send(f.out().bytes());
    attend.kv.base = Send(f.pool());
    attend.tables.block_tables = Send(attend.tables.block_tables, kSlots * kMaxBlocks);
    attend.tables.slots = Send(attend.tables.slots, kSlots);
    append.qkv = attend.qkv;
    append.kv = attend.kv;
    append.tables = attend.tables;
    // Room for longer steps than this one, as in a captured graph.
    attend.shape.max_rows += 3;
    attend.shape.max_tokens += attend.shape.decode_only != 0 ? 3 : 100;
    append.rows.max = attend.shape.max_tokens;

    ops().kv_append(*stream_, append);
    ops().attention(*stream_, attend);
    std::vector<std::byte> pool(f.pool().size());
    Receive(attend.kv.base, pool.size(), pool.data());
    Receive(static_cast<const std::byte*>(attend.out.data), f.out().bytes().size(),
            static_cast<std::byte*>(f.attention_args().out.data));
    f.Append();
    EXPECT_EQ(std::memcmp(pool.data(), f.pool().data(), pool.size()), 0) << "KV append";
  }
};

const AttentionShape kShapes[] = {{9, 3, 64, 16, 0},  {12, 12, 64, 16, 0}, {8, 2, 128, 16, 0},
                                  {4, 4, 8, 4, 0},    {5, 1, 24, 3, 0},    {12, 1, 40, 16, 0},
                                  {2, 2, 256, 16, 0}, {70, 1, 8, 16, 0},   {8, 1, 80, 16, 0},
                                  {3, 1, 200, 8, 0}};

TEST_P(CudaAttentionTest, DecodeRows) {
  for (const AttentionShape& shape : kShapes) {
    AttentionFixture f(shape, GetParam(), {{1, 0, 1}, {2, 37, 1}, {3, 170, 1}});
    AppendAndAttend(f);
    f.Check();
  }
}

TEST_P(CudaAttentionTest, LongContextsInManyShares) {
  for (const AttentionShape& shape :
       {AttentionShape{9, 3, 64, 16, 0}, AttentionShape{2, 2, 128, 16, 0},
        AttentionShape{8, 1, 128, 16, 300}}) {
    AttentionFixture f(shape, GetParam(), {{1, 959, 1}});
    AppendAndAttend(f);
    f.Check();
  }
}

TEST_P(CudaAttentionTest, ChunksAndDecodeRowsInOneStep) {
  for (const AttentionShape& shape : kShapes) {
    AttentionFixture f(shape, GetParam(), {{1, 0, 1}, {2, 37, 1}, {3, 66, 75}});
    AppendAndAttend(f);
    f.Check();
  }
}

TEST_P(CudaAttentionTest, WholePrompts) {
  for (const AttentionShape& shape :
       {AttentionShape{12, 12, 64, 16, 0}, AttentionShape{8, 2, 128, 16, 0}}) {
    AttentionFixture f(shape, GetParam(), {{1, 0, 200}, {2, 0, 2}, {3, 0, 131}});
    AppendAndAttend(f);
    f.Check();
  }
}

TEST_P(CudaAttentionTest, WindowsHideWhatIsOlder) {
  for (const int32_t window : {1, 5, 31, 32, 33, 64, 65, 1000}) {
    for (const std::vector<AttentionRow>& rows :
         {std::vector<AttentionRow>{{1, 120, 1}, {2, 0, 100}, {3, 30, 2}},
          std::vector<AttentionRow>{{1, 120, 1}, {2, 3, 1}}}) {
      AttentionFixture f({4, 2, 16, 4, window}, GetParam(), rows);
      AppendAndAttend(f);
      f.Check();
    }
  }
}

// All of the pool that no row has written is NaN in every test here; not a bit of the output
// depends on it.
TEST_P(CudaAttentionTest, RecycledMemoryDoesNotMatter) {
  for (const std::vector<AttentionRow>& rows :
       {std::vector<AttentionRow>{{1, 5, 1}, {2, 17, 9}},
        std::vector<AttentionRow>{{1, 5, 1}, {2, 170, 1}}}) {
    AttentionFixture nan({6, 2, 64, 16, 0}, GetParam(), rows);
    AttentionFixture zero({6, 2, 64, 16, 0}, GetParam(), rows, std::byte{0});
    AppendAndAttend(nan);
    AppendAndAttend(zero);
    nan.Check();
    EXPECT_EQ(nan.out().bytes(), zero.out().bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaAttentionTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

}  // namespace
}  // namespace rally
