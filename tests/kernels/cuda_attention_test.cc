// KV append and attention on the GPU against a plain softmax in double precision, after the head
// norms and rotary positions of the host where the GPU's kernel does those too.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/host/host_ops.h"
#include "tests/kernels/attention_fixture.h"
#include "tests/kernels/cuda_op_test.h"

namespace rally {
namespace {

class CudaAttentionTest : public CudaOpTest, public testing::WithParamInterface<DType> {
 protected:
  // Everything that `f` points to moves to the device.
  AttentionArgs SendArgs(AttentionFixture& f, int32_t spare_rows = 3) {
    AttentionArgs attend = f.attention_args();
    const auto rows = static_cast<size_t>(attend.shape.max_rows);
    attend.record.header = Send(attend.record.header, 1);
    attend.record.rows = Send(attend.record.rows, rows);
    attend.qkv.data = Send(static_cast<const std::byte*>(attend.qkv.data), f.qkv().bytes().size());
    attend.out.data = Send(f.out().bytes());
    attend.kv.base = Send(f.pool());
    attend.tables.block_tables = Send(attend.tables.block_tables, kSlots * kMaxBlocks);
    attend.tables.slots = Send(attend.tables.slots, kSlots);
    // Room for longer steps than this one, as in a captured graph.
    attend.shape.max_rows += spare_rows;
    attend.shape.max_tokens += attend.shape.decode_only != 0 ? spare_rows : 100;
    return attend;
  }

  // The output comes back into `f`, the pool is returned.
  std::vector<std::byte> ReceiveResults(const AttentionArgs& attend, AttentionFixture& f) {
    std::vector<std::byte> pool(f.pool().size());
    Receive(attend.kv.base, pool.size(), pool.data());
    Receive(static_cast<const std::byte*>(attend.out.data), f.out().bytes().size(),
            static_cast<std::byte*>(f.attention_args().out.data));
    return pool;
  }

  void AppendAndAttend(AttentionFixture& f) {
    KvAppendArgs append = f.append_args();
    const AttentionArgs attend = SendArgs(f);
    append.rows.count = &attend.record.header->token_count;
    append.tokens = Send(append.tokens, static_cast<size_t>(append.rows.max));
    append.rows.max = attend.shape.max_tokens;
    append.qkv = attend.qkv;
    append.kv = attend.kv;
    append.tables = attend.tables;
    ops().kv_append(*stream_, append);
    ops().attention(*stream_, attend);
    const std::vector<std::byte> pool = ReceiveResults(attend, f);
    f.Append();
    EXPECT_EQ(std::memcmp(pool.data(), f.pool().data(), pool.size()), 0) << "KV append";
  }

  // Kernels for bf16 may multiply values by probabilities of that type.
  static AttentionRounding Rounding() {
    return {.weights = GetParam() == DType::kBF16 ? 0x1p-8 : 0.0};
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
    f.Check(Rounding());
  }
}

TEST_P(CudaAttentionTest, LongContextsInManyShares) {
  for (const AttentionShape& shape :
       {AttentionShape{9, 3, 64, 16, 0}, AttentionShape{2, 2, 128, 16, 0},
        AttentionShape{8, 1, 128, 16, 300}}) {
    AttentionFixture f(shape, GetParam(), {{1, 959, 1}});
    AppendAndAttend(f);
    f.Check(Rounding());
  }
}

TEST_P(CudaAttentionTest, ChunksAndDecodeRowsInOneStep) {
  for (const AttentionShape& shape : kShapes) {
    AttentionFixture f(shape, GetParam(), {{1, 0, 1}, {2, 37, 1}, {3, 66, 75}});
    AppendAndAttend(f);
    f.Check(Rounding());
  }
}

TEST_P(CudaAttentionTest, WholePrompts) {
  for (const AttentionShape& shape :
       {AttentionShape{12, 12, 64, 16, 0}, AttentionShape{8, 2, 128, 16, 0}}) {
    AttentionFixture f(shape, GetParam(), {{1, 0, 200}, {2, 0, 2}, {3, 0, 131}});
    AppendAndAttend(f);
    f.Check(Rounding());
  }
}

TEST_P(CudaAttentionTest, WindowsHideWhatIsOlder) {
  for (const int32_t window : {1, 5, 31, 32, 33, 64, 65, 1000}) {
    for (const std::vector<AttentionRow>& rows :
         {std::vector<AttentionRow>{{1, 120, 1}, {2, 0, 100}, {3, 30, 2}},
          std::vector<AttentionRow>{{1, 120, 1}, {2, 3, 1}}}) {
      AttentionFixture f({4, 2, 16, 4, window}, GetParam(), rows);
      AppendAndAttend(f);
      f.Check(Rounding());
    }
  }
}

TEST_P(CudaAttentionTest, ChunksInTiles) {
  const std::vector<AttentionRow> rows = {{1, 100, 1}, {2, 0, 150}, {3, 41, 67}};
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 64, 1024, 0}, AttentionShape{2, 1, 128, 3, 0},
        AttentionShape{7, 1, 64, 1, 0}, AttentionShape{4, 1, 64, 16, 50},
        AttentionShape{8, 1, 128, 16, 65}, AttentionShape{2, 2, 64, 16, 1}}) {
    AttentionFixture f(shape, GetParam(), rows);
    AppendAndAttend(f);
    f.Check(Rounding());
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
    nan.Check(Rounding());
    EXPECT_EQ(nan.out().bytes(), zero.out().bytes());
  }
}

// Head norms, rotary positions, append and attention as one op.
struct FusedCase {
  AttentionShape shape;
  int32_t rotary_dim;
  int32_t normed;
};

class CudaFusedAttentionTest : public CudaAttentionTest {
 protected:
  void Run(const FusedCase& c, const std::vector<AttentionRow>& rows) {
    SCOPED_TRACE(testing::Message() << c.shape.q_heads << " heads on " << c.shape.kv_heads
                                    << ", dh " << c.shape.head_dim << ", blocks of "
                                    << c.shape.block_tokens << ", window " << c.shape.window);
    AttentionFixture f(c.shape, GetParam(), rows);
    const int32_t dh = c.shape.head_dim;
    q_weight_ = TestMatrix::Random(1, dh, DType::kF32, 3);
    k_weight_ = TestMatrix::Random(1, dh, DType::kF32, 4);
    inv_freq_.clear();
    for (int32_t i = 0; i < c.rotary_dim / 2; ++i) {
      inv_freq_.push_back(std::pow(100.0f, -2 * static_cast<float>(i) / 64));
    }
    DecodeAttentionArgs args;
    args.attention = SendArgs(f, rows.size() == 1 ? 0 : 3);  // one row alone: many shares
    args.tokens = Send(f.tokens(), rows.size());
    args.q_norm_weight =
        c.normed != 0 ? Send(q_weight_.floats(), static_cast<size_t>(dh)) : nullptr;
    args.k_norm_weight =
        c.normed != 0 ? Send(k_weight_.floats(), static_cast<size_t>(dh)) : nullptr;
    args.norm_epsilon = kEpsilon;
    args.rotary_dim = c.rotary_dim;
    args.inv_freq = Send(inv_freq_);
    args.rope_scale = kRopeScale;
    ASSERT_TRUE(ops().decode_attention(*stream_, args));
    const std::vector<std::byte> pool = ReceiveResults(args.attention, f);
    PrepareOnHost(c, f);
    f.Append();
    CheckPool(pool, f);
    f.SetPool(pool);
    AttentionRounding rounding = Rounding();
    // Norms and rotations in another order of fp32 operations come out as another value of the type
    // where they lie within about 2^-22 of the border of two: about one value in 10^4.
    if (c.rotary_dim > 0 || c.normed != 0) rounding.queries = 0x1p-7;
    f.Check(rounding);
  }

 private:
  static constexpr float kEpsilon = 1e-6f;
  static constexpr float kRopeScale = 1.25f;

  void PrepareOnHost(const FusedCase& c, AttentionFixture& f) const {
    const RowCount rows(&f.header().token_count, f.header().token_count);
    const auto [q_heads, kv_heads, dh, block, window] = c.shape;
    if (c.normed != 0) {
      RunHeadNorm({rows, f.qkv().view(), 0, q_heads, dh, q_weight_.floats(), kEpsilon});
      RunHeadNorm({rows, f.qkv().view(), q_heads * dh, kv_heads, dh, k_weight_.floats(), kEpsilon});
    }
    if (c.rotary_dim == 0) return;
    RunRope({rows, f.tokens(), f.qkv().view(), 0, q_heads + kv_heads, dh, c.rotary_dim,
             inv_freq_.data(), kRopeScale});
  }

  // What was there is as it was; what is new is at most the neighbouring value of the type.
  static void CheckPool(const std::vector<std::byte>& pool, const AttentionFixture& f) {
    const auto* actual = reinterpret_cast<const uint16_t*>(pool.data());
    const auto* expected = reinterpret_cast<const uint16_t*>(f.pool().data());
    int32_t others = 0;
    for (size_t i = 0; i < pool.size() / 2; ++i) {
      ASSERT_LE(std::abs(actual[i] - expected[i]), 1) << "element " << i << " of the pool";
      others += actual[i] != expected[i] ? 1 : 0;
    }
    EXPECT_LE(others, 2);
  }

  TestMatrix q_weight_{0, 0, DType::kF32};
  TestMatrix k_weight_{0, 0, DType::kF32};
  std::vector<float> inv_freq_;
};

TEST_P(CudaFusedAttentionTest, GroupsNormsAndRotations) {
  for (const FusedCase& c :
       {FusedCase{{1, 1, 64, 16, 0}, 0, 0}, FusedCase{{3, 3, 64, 16, 0}, 64, 0},
        FusedCase{{4, 2, 128, 16, 0}, 128, 1}, FusedCase{{4, 1, 64, 16, 0}, 32, 1},
        FusedCase{{7, 1, 128, 16, 0}, 48, 0}, FusedCase{{8, 1, 64, 16, 0}, 64, 1},
        FusedCase{{19, 1, 64, 16, 0}, 64, 0}}) {
    Run(c, {{1, 0, 1}, {2, 37, 1}, {3, 170, 1}});
  }
}

TEST_P(CudaFusedAttentionTest, BlockSizes) {
  for (const int32_t block_tokens : {1, 3, 1024}) {
    Run({{2, 1, 64, block_tokens, 0}, 64, 0}, {{1, 15, 1}, {2, 64, 1}, {3, 129, 1}});
  }
}

TEST_P(CudaFusedAttentionTest, LengthsAroundTilesAndShares) {
  for (const int32_t position : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 400, 959}) {
    Run({{2, 1, 64, 16, 0}, 0, 0}, {{1, position, 1}});
  }
  Run({{4, 1, 128, 16, 0}, 128, 0}, {{1, 959, 1}});
}

TEST_P(CudaFusedAttentionTest, Windows) {
  for (const int32_t window : {1, 2, 16, 17, 100, 1000}) {
    Run({{4, 1, 64, 4, window}, 64, 0}, {{1, 120, 1}, {2, 3, 1}, {3, 600, 1}});
  }
}

TEST_P(CudaFusedAttentionTest, DeclinesWhatItDoesNotTake) {
  AttentionFixture wide({2, 2, 80, 16, 0}, GetParam(), {{1, 5, 1}});
  AttentionFixture full({2, 2, 64, 16, 0}, DType::kF32, {{1, 5, 1}});
  for (AttentionFixture* f : {&wide, &full}) {
    DecodeAttentionArgs args;
    args.attention = SendArgs(*f);
    EXPECT_FALSE(ops().decode_attention(*stream_, args));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaFusedAttentionTest, testing::Values(DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });
INSTANTIATE_TEST_SUITE_P(Types, CudaAttentionTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

}  // namespace
}  // namespace rally
