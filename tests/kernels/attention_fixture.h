// Rows of some sequences over a paged cache, and what attention over it should come to: a plain
// softmax in double precision.
#ifndef RALLY_TESTS_KERNELS_ATTENTION_FIXTURE_H_
#define RALLY_TESTS_KERNELS_ATTENTION_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/host/host_ops.h"
#include "kernels/host/kv_address.h"
#include "tests/kernels/op_test_util.h"

namespace rally {

struct AttentionShape {
  int32_t q_heads, kv_heads, head_dim, block_tokens, window;
};

struct AttentionRow {
  int32_t slot, first_position, tokens;
};

inline constexpr int32_t kLayers = 2;
inline constexpr int32_t kLayer = 1;
inline constexpr int32_t kMaxBlocks = 200;  // of one slot
inline constexpr int32_t kMaxPositions = 960;
inline constexpr int32_t kSlots = 4;

// What may be rounded on the way to the output besides fp32 arithmetic.
struct AttentionRounding {
  double weights = 0;  // relative error of a probability that multiplies a value
  double queries = 0;  // relative error of a product of query and key; two of a head have it
};

class AttentionFixture {
 public:
  // `fill`: what the pool holds where nothing was written; 0xff bytes are a NaN of either type.
  AttentionFixture(const AttentionShape& shape, DType dtype, const std::vector<AttentionRow>& rows,
                   std::byte fill = std::byte{0xff})
      : shape_(shape), dtype_(dtype), rows_(rows) {
    kv_ = {nullptr, dtype, kLayers, shape.kv_heads, shape.block_tokens, shape.head_dim};
    const int32_t blocks =
        std::min((kMaxPositions + shape.block_tokens - 1) / shape.block_tokens, kMaxBlocks);
    const int32_t pool_blocks = 3 * blocks + 20;
    pool_.assign(static_cast<size_t>(kv_.block_bytes() * pool_blocks), fill);
    kv_.base = pool_.data();
    // Each slot's blocks are scattered: slot s takes s, s + 3, s + 6, ... from the end.
    for (int32_t s = 1; s < kSlots; ++s) {
      for (int32_t i = 0; i < blocks; ++i) {
        tables_[static_cast<size_t>(s * kMaxBlocks + i)] = pool_blocks - s - 3 * i;
      }
    }
    for (const AttentionRow& row : rows) {
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

  void Append() { RunKvAppend(append_args()); }
  // Another pool, such as the one that a device wrote.
  void SetPool(const std::vector<std::byte>& pool) {
    std::copy(pool.begin(), pool.end(), pool_.begin());
  }
  void Attend() { RunAttention(attention_args()); }

  KvAppendArgs append_args() {
    return {{&header_.token_count, header_.token_count},
            tokens_.data(),
            qkv_->view(),
            shape_.q_heads,
            kLayer,
            kv_,
            slot_tables()};
  }
  AttentionArgs attention_args() {
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
    args.shape = {header_.row_count, header_.token_count, header_.row_count,
                  header_.row_count == header_.token_count ? 1 : 0};
    return args;
  }

  // Scores are sums of dh products, off by d = (dh + 2) eps sum |q k|; a probability is then off by
  // the factor exp(2d) and by some ulp of exp, and the output is a mean of values.
  void Check(const AttentionRounding& rounding = {}) const {
    int32_t t = 0;
    for (const AttentionRow& row : rows_) {
      for (int32_t i = 0; i < row.tokens; ++i, ++t) {
        for (int32_t h = 0; h < shape_.q_heads; ++h) {
          CheckHead(row, row.first_position + i, t, h, rounding);
        }
      }
    }
  }

  const std::vector<std::byte>& pool() const { return pool_; }
  const TestMatrix& out() const { return *out_; }
  const TestMatrix& qkv() const { return *qkv_; }
  TestMatrix& qkv() { return *qkv_; }
  const TokenMeta* tokens() const { return tokens_.data(); }
  const StepHeader& header() const { return header_; }
  const KvCacheView& kv() const { return kv_; }
  double Stored(const AttentionRow& row, int32_t position, KvSide side, int32_t head,
                int32_t d) const {
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
    for (const AttentionRow& row : rows_) {
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
    for (const AttentionRow& row : rows_) {
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

  void CheckHead(const AttentionRow& row, int32_t position, int32_t t, int32_t h,
                 const AttentionRounding& rounding) const {
    const int32_t dh = shape_.head_dim;
    const int32_t kv_head = h / (shape_.q_heads / shape_.kv_heads);
    const int32_t first = shape_.window > 0 ? std::max(0, position - shape_.window + 1) : 0;
    std::vector<double> p;
    double max = -1e300, error = 0, total = 0;
    for (int32_t k = first; k <= position; ++k) {
      double score = 0, magnitude = 0, largest = 0;
      for (int32_t d = 0; d < dh; ++d) {
        const double product = (*qkv_)(t, h * dh + d) * Stored(row, k, KvSide::kKey, kv_head, d);
        score += product * double{Scale()};
        magnitude += std::abs(product) * double{Scale()};
        largest = std::max(largest, std::abs(product) * double{Scale()});
      }
      p.push_back(score);
      max = std::max(max, score);
      error = std::max(error, (dh + 3) * kEps * magnitude + 2 * rounding.queries * largest);
    }
    for (double& value : p) total += value = std::exp(value - max);
    for (int32_t d = 0; d < dh; ++d) {
      double y = 0, spread = 0;
      for (int32_t k = first; k <= position; ++k) {
        const double v = Stored(row, k, KvSide::kValue, kv_head, d);
        y += p[static_cast<size_t>(k - first)] / total * v;
        spread += p[static_cast<size_t>(k - first)] / total * std::abs(v);
      }
      const double relative =
          4 * error + (2 * static_cast<double>(p.size()) + 16) * kEps + rounding.weights;
      ASSERT_NEAR((*out_)(t, h * dh + d), y, relative * spread + StoreError(dtype_, y))
          << "token " << t << " at " << position << ", head " << h << ", value " << d;
    }
  }

  const AttentionShape shape_;
  const DType dtype_;
  const std::vector<AttentionRow> rows_;
  KvCacheView kv_;
  std::vector<std::byte> pool_;
  SlotState slots_[kSlots];
  std::vector<int32_t> tables_ = std::vector<int32_t>(kSlots * kMaxBlocks, kNullBlock);
  StepHeader header_;
  std::vector<StepRow> step_rows_;
  std::vector<TokenMeta> tokens_;
  std::unique_ptr<TestMatrix> qkv_, out_;
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_ATTENTION_FIXTURE_H_
