// KV append and attention over a paged cache, against a plain softmax in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/host/host_ops.h"
#include "kernels/host/kv_address.h"
#include "tests/kernels/op_test_util.h"

namespace rally {
namespace {

struct Shape {
  int32_t q_heads, kv_heads, head_dim, block_tokens, window;
};

struct Row {
  int32_t slot, first_position, tokens;
};

constexpr int32_t kLayers = 2;
constexpr int32_t kLayer = 1;
constexpr int32_t kMaxBlocks = 80;  // of one slot
constexpr int32_t kSlots = 4;
constexpr int32_t kPoolBlocks = 200;

class Fixture {
 public:
  // `fill`: what the pool holds where nothing was written; 0xff bytes are a NaN of either type.
  Fixture(const Shape& shape, DType dtype, const std::vector<Row>& rows,
          std::byte fill = std::byte{0xff})
      : shape_(shape), dtype_(dtype), rows_(rows) {
    kv_ = {nullptr, dtype, kLayers, shape.kv_heads, shape.block_tokens, shape.head_dim};
    pool_.assign(static_cast<size_t>(kv_.block_bytes() * kPoolBlocks), fill);
    kv_.base = pool_.data();
    // Each slot's blocks are scattered: slot s takes s, s + 3, s + 6, ... from the end.
    for (int32_t s = 1; s < kSlots; ++s) {
      for (int32_t i = 0; i < 60; ++i) {
        tables_[static_cast<size_t>(s * kMaxBlocks + i)] = kPoolBlocks - s - 3 * i;
      }
    }
    for (const Row& row : rows) {
      header_.row_count++;
      step_rows_.push_back({row.slot, header_.token_count, row.tokens, row.first_position});
      for (int32_t i = 0; i < row.tokens; ++i) {
        tokens_.push_back({0, row.first_position + i, row.slot});
      }
      header_.token_count += row.tokens;
    }
    const int32_t width = (shape.q_heads + 2 * shape.kv_heads) * shape.head_dim;
    qkv_ = std::make_unique<TestMatrix>(TestMatrix::Random(header_.token_count, width, dtype, 11));
    out_ = std::make_unique<TestMatrix>(header_.token_count, shape.q_heads * shape.head_dim, dtype);
    FillHistory();
  }

  void Append() {
    RunKvAppend({&header_.token_count, tokens_.data(), qkv_->view(), shape_.q_heads, kLayer, kv_,
                 slot_tables()});
  }
  void Attend() {
    AttentionArgs args;
    args.record.header = &header_;
    args.record.rows = step_rows_.data();
    args.qkv = qkv_->view();
    args.q_heads = shape_.q_heads;
    args.layer = kLayer;
    args.window = shape_.window;
    args.scale = Scale();
    args.kv = kv_;
    args.tables = slot_tables();
    args.out = out_->view();
    RunAttention(args);
  }

  // Scores are sums of dh products, off by d = (dh + 2) eps sum |q k|; a probability is then off by
  // the factor exp(2d) and by some ulp of exp, and the output is a mean of values.
  void Check() const {
    int32_t t = 0;
    for (const Row& row : rows_) {
      for (int32_t i = 0; i < row.tokens; ++i, ++t) {
        for (int32_t h = 0; h < shape_.q_heads; ++h) CheckHead(row, row.first_position + i, t, h);
      }
    }
  }

  const std::vector<std::byte>& pool() const { return pool_; }
  const TestMatrix& out() const { return *out_; }
  const KvCacheView& kv() const { return kv_; }
  double Stored(const Row& row, int32_t position, KvSide side, int32_t head, int32_t d) const {
    const int32_t* table = tables_.data() + row.slot * kMaxBlocks;
    if (dtype_ == DType::kF32) {
      return KvAddress<float>(kv_, table, kLayer, side, head, position)[d];
    }
    return ToFloat(KvAddress<BFloat16>(kv_, table, kLayer, side, head, position)[d]);
  }
  double FromQkv(int32_t token, KvSide side, int32_t head, int32_t d) const {
    const int32_t first = shape_.q_heads + (side == KvSide::kValue ? shape_.kv_heads : 0);
    return (*qkv_)(token, (first + head) * shape_.head_dim + d);
  }
  std::vector<int32_t> BlocksOfRows() const {
    std::vector<int32_t> blocks;
    for (const Row& row : rows_) {
      for (int32_t i = 0; i < row.tokens; ++i) {
        const int32_t index = (row.first_position + i) / shape_.block_tokens;
        blocks.push_back(tables_[static_cast<size_t>(row.slot * kMaxBlocks + index)]);
      }
    }
    return blocks;
  }

 private:
  float Scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }
  SlotTables slot_tables() { return {slots_, tables_.data(), kMaxBlocks}; }

  void FillHistory() {
    for (const Row& row : rows_) {
      if (row.first_position == 0) continue;
      const int32_t width = (shape_.q_heads + 2 * shape_.kv_heads) * shape_.head_dim;
      TestMatrix history =
          TestMatrix::Random(row.first_position, width, dtype_, static_cast<uint32_t>(row.slot));
      std::vector<TokenMeta> tokens;
      for (int32_t p = 0; p < row.first_position; ++p) tokens.push_back({0, p, row.slot});
      RunKvAppend({&row.first_position, tokens.data(), history.view(), shape_.q_heads, kLayer, kv_,
                   slot_tables()});
    }
  }

  void CheckHead(const Row& row, int32_t position, int32_t t, int32_t h) const {
    const int32_t dh = shape_.head_dim;
    const int32_t kv_head = h / (shape_.q_heads / shape_.kv_heads);
    const int32_t first = shape_.window > 0 ? std::max(0, position - shape_.window + 1) : 0;
    std::vector<double> p;
    double max = -1e300, error = 0, total = 0;
    for (int32_t k = first; k <= position; ++k) {
      double score = 0, magnitude = 0;
      for (int32_t d = 0; d < dh; ++d) {
        const double product = (*qkv_)(t, h * dh + d) * Stored(row, k, KvSide::kKey, kv_head, d);
        score += product * double{Scale()};
        magnitude += std::abs(product) * double{Scale()};
      }
      p.push_back(score);
      max = std::max(max, score);
      error = std::max(error, (dh + 3) * kEps * magnitude);
    }
    for (double& value : p) total += value = std::exp(value - max);
    for (int32_t d = 0; d < dh; ++d) {
      double y = 0, spread = 0;
      for (int32_t k = first; k <= position; ++k) {
        const double v = Stored(row, k, KvSide::kValue, kv_head, d);
        y += p[static_cast<size_t>(k - first)] / total * v;
        spread += p[static_cast<size_t>(k - first)] / total * std::abs(v);
      }
      const double relative = 4 * error + (2 * static_cast<double>(p.size()) + 16) * kEps;
      ASSERT_NEAR((*out_)(t, h * dh + d), y, relative * spread + StoreError(dtype_, y))
          << "token " << t << " at " << position << ", head " << h << ", value " << d;
    }
  }

  const Shape shape_;
  const DType dtype_;
  const std::vector<Row> rows_;
  KvCacheView kv_;
  std::vector<std::byte> pool_;
  SlotState slots_[kSlots];
  std::vector<int32_t> tables_ = std::vector<int32_t>(kSlots * kMaxBlocks, kNullBlock);
  StepHeader header_;
  std::vector<StepRow> step_rows_;
  std::vector<TokenMeta> tokens_;
  std::unique_ptr<TestMatrix> qkv_, out_;
};

class AttentionTest : public testing::TestWithParam<DType> {};

// Decode rows, chunks and whole prompts in one step; group sizes on both sides of a vector.
TEST_P(AttentionTest, MatchesAPlainSoftmax) {
  const std::vector<Row> rows = {{1, 0, 1}, {2, 37, 1}, {3, 66, 75}};
  for (const Shape& shape :
       {Shape{9, 3, 64, 16, 0}, Shape{4, 4, 8, 4, 0}, Shape{5, 1, 24, 3, 0},
        Shape{12, 1, 40, 16, 0}, Shape{2, 2, 256, 16, 0}, Shape{70, 1, 8, 16, 0}}) {
    Fixture f(shape, GetParam(), rows);
    f.Append();
    f.Attend();
    f.Check();
  }
}

TEST_P(AttentionTest, WindowsHideWhatIsOlder) {
  const std::vector<Row> rows = {{1, 120, 1}, {2, 0, 100}, {3, 30, 2}};
  for (const int32_t window : {1, 5, 63, 64, 65, 1000}) {
    Fixture f({4, 2, 16, 4, window}, GetParam(), rows);
    f.Append();
    f.Attend();
    f.Check();
  }
}

// All of the pool that no row has written is NaN in every test here; this one shows that not a bit
// of the output depends on it.
TEST_P(AttentionTest, RecycledMemoryDoesNotMatter) {
  const std::vector<Row> rows = {{1, 5, 1}, {2, 17, 9}};
  Fixture nan({6, 2, 16, 4, 0}, GetParam(), rows);
  Fixture zero({6, 2, 16, 4, 0}, GetParam(), rows, std::byte{0});
  for (Fixture* f : {&nan, &zero}) {
    f->Append();
    f->Attend();
  }
  nan.Check();
  EXPECT_EQ(nan.out().bytes(), zero.out().bytes());
}

TEST_P(AttentionTest, AppendWritesItsTokensAndNothingElse) {
  const std::vector<Row> rows = {{1, 14, 5}, {3, 3, 1}};
  const Shape shape{4, 2, 8, 16, 0};
  Fixture f(shape, GetParam(), rows);
  const std::vector<std::byte> before = f.pool();
  f.Append();
  int32_t token = 0;
  for (const Row& row : rows) {
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
