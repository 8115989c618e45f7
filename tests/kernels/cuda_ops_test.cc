// The small ops on the GPU against the host's, on the same inputs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/host/host_ops.h"
#include "tests/kernels/cuda_op_test.h"

namespace rally {
namespace {

constexpr int32_t kRows = 5;     // that count
constexpr int32_t kMaxRows = 7;  // that are there

class CudaSmallOpsTest : public CudaOpTest, public testing::WithParamInterface<DType> {
 protected:
  DType type() const { return GetParam(); }

  // Both sides round: twice the error of storing, plus what `computed` allows.
  template <typename Tolerance>
  void ExpectNear(const TestMatrix& actual, const TestMatrix& expected, const Tolerance& computed) {
    for (int32_t r = 0; r < kRows; ++r) {
      for (int32_t c = 0; c < expected.cols(); ++c) {
        const double y = expected(r, c);
        ASSERT_NEAR(actual(r, c), y, computed(r, c) + 2 * StoreError(expected.dtype(), y))
            << "row " << r << ", column " << c << " of " << expected.cols();
      }
    }
  }
};

std::vector<TokenMeta> SomeTokens() {
  std::vector<TokenMeta> tokens;
  for (int32_t t = 0; t < kMaxRows; ++t) tokens.push_back({3 * t + 1, 2 * t, 1});
  return tokens;
}

TEST_P(CudaSmallOpsTest, Embed) {
  const std::vector<TokenMeta> tokens = SomeTokens();
  for (const int32_t width : {1, 7, 64, 768, 1030}) {
    TestMatrix table = TestMatrix::Random(40, width, type(), 1);
    TestMatrix positions = TestMatrix::Random(20, width, type(), 2);
    for (const bool learned : {false, true}) {
      TestMatrix out(kMaxRows, width, DType::kF32);
      const Matrix none;
      RunEmbed(
          {&kRows, tokens.data(), table.view(), learned ? positions.view() : none, out.view()});
      TestMatrix blank(kMaxRows, width, DType::kF32);
      const Matrix device_out = Send(blank);
      ops().embed(*stream_, {Send(kRows, kMaxRows), Send(tokens), Send(table),
                             learned ? Send(positions) : none, device_out});
      ExpectNear(Receive(device_out, kMaxRows), out, [](int, int) { return 0.0; });
    }
  }
}

// Sums of n squares: relative error n eps on either side, halved by the root.
TEST_P(CudaSmallOpsTest, Norm) {
  for (const int32_t width : {1, 6, 63, 576, 768, 4096, 5001}) {
    TestMatrix x = TestMatrix::Random(kMaxRows, width, DType::kF32, 3, 4);
    const TestMatrix weight = TestMatrix::Random(1, width, DType::kF32, 4);
    const TestMatrix bias = TestMatrix::Random(1, width, DType::kF32, 5);
    for (const bool layer_norm : {false, true}) {
      TestMatrix out(kMaxRows, width, type());
      const size_t n = static_cast<size_t>(width);
      RunNorm({&kRows, x.view(), weight.floats(), layer_norm ? bias.floats() : nullptr, 1e-5f,
               out.view()});
      const Matrix device_out = Send(out);
      ops().norm(*stream_, {Send(kRows, kMaxRows), Send(x), Send(weight.floats(), n),
                            layer_norm ? Send(bias.floats(), n) : nullptr, 1e-5f, device_out});
      ExpectNear(Receive(device_out, kMaxRows), out, [&](int r, int c) {
        const double size = std::abs(out(r, c)) + std::abs(bias(0, c)) + std::abs(weight(0, c));
        return (width + 8) * kEps * size;
      });
    }
  }
}

TEST_P(CudaSmallOpsTest, HeadNorm) {
  for (const int32_t head_dim : {8, 40, 64, 128, 256}) {
    const int32_t heads = 11, first_col = 16;
    TestMatrix x = TestMatrix::Random(kMaxRows, first_col + heads * head_dim + 8, type(), 6);
    const TestMatrix weight = TestMatrix::Random(1, head_dim, DType::kF32, 7);
    const Matrix device_x = Send(x);
    ops().head_norm(*stream_, {Send(kRows, kMaxRows), device_x, first_col, heads, head_dim,
                               Send(weight.floats(), static_cast<size_t>(head_dim)), 1e-6f});
    const TestMatrix actual = Receive(device_x, kMaxRows);
    RunHeadNorm({&kRows, x.view(), first_col, heads, head_dim, weight.floats(), 1e-6f});
    ExpectNear(actual, x, [&](int r, int c) { return (head_dim + 8) * kEps * std::abs(x(r, c)); });
  }
}

TEST_P(CudaSmallOpsTest, Rope) {
  for (const int32_t head_dim : {8, 24, 64, 128}) {
    const int32_t heads = 5, first_col = 8, rotary = head_dim > 8 ? head_dim - 8 : 8;
    TestMatrix x = TestMatrix::Random(kMaxRows, first_col + heads * head_dim, type(), 8);
    std::vector<TokenMeta> tokens = SomeTokens();
    tokens[1].position = 131071;
    std::vector<float> inv_freq;
    for (int32_t i = 0; i < rotary / 2; ++i) {
      inv_freq.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / rotary));
    }
    const TestMatrix before = x;
    const Matrix device_x = Send(x);
    ops().rope(*stream_, {Send(kRows, kMaxRows), Send(tokens), device_x, first_col, heads, head_dim,
                          rotary, Send(inv_freq), 1.25f});
    const TestMatrix actual = Receive(device_x, kMaxRows);
    RunRope({&kRows, tokens.data(), x.view(), first_col, heads, head_dim, rotary, inv_freq.data(),
             1.25f});
    // Sines and cosines to 2 ulp of 1 on either side, two products and a sum.
    ExpectNear(actual, x, [](int, int) { return 16 * kEps * 1.25 * 10; });
    for (int32_t c = 0; c < first_col; ++c) EXPECT_EQ(actual(0, c), before(0, c));
    for (int32_t c = 0; c < x.cols(); ++c) EXPECT_EQ(actual(kRows, c), before(kRows, c));
  }
}

TEST_P(CudaSmallOpsTest, Activation) {
  for (const ActivationKind kind : {ActivationKind::kGeluTanh, ActivationKind::kGeluErf,
                                    ActivationKind::kRelu, ActivationKind::kSilu}) {
    for (const int32_t width : {1, 30, 64, 1536, 1537}) {
      for (const int32_t gated : {0, 1}) {
        for (const DType out_type : {DType::kF32, type()}) {
          TestMatrix x = TestMatrix::Random(kMaxRows, width * (1 + gated), type(), 9, 3);
          TestMatrix out(kMaxRows, width, out_type);
          const Matrix device_out = Send(out);
          ops().activation(*stream_, {Send(kRows, kMaxRows), kind, gated, Send(x), device_out});
          RunActivation({&kRows, kind, gated, x.view(), out.view()});
          ExpectNear(Receive(device_out, kMaxRows), out, [&](int r, int c) {
            return 16 * kEps * std::abs(x(r, c)) * (gated != 0 ? std::abs(x(r, width + c)) : 1);
          });
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaSmallOpsTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

class CudaRecordTest : public CudaOpTest {};

TEST_F(CudaRecordTest, Gather) {
  const std::vector<StepSample> samples = {{4, 1}, {0, 2}, {4, 3}, {6, 1}, {2, 1}, {0, 0}, {0, 0}};
  for (const int32_t width : {1, 64, 577}) {
    TestMatrix x = TestMatrix::Random(kMaxRows, width, DType::kF32, 10);
    TestMatrix out(kMaxRows, width, DType::kF32);
    const Matrix device_out = Send(out);
    ops().gather(*stream_, {Send(kRows, kMaxRows), Send(samples), Send(x), device_out});
    RunGather({&kRows, samples.data(), x.view(), out.view()});
    EXPECT_EQ(Receive(device_out, kMaxRows).bytes(), out.bytes());
  }
}

// Resets, updates, a long prompt among short rows, tokens from slots that were just reset.
TEST_F(CudaRecordTest, ApplyRecord) {
  const StepLimits limits{.max_rows = 300,
                          .max_tokens = 6000,
                          .max_samples = 300,
                          .max_block_updates = 500,
                          .slot_count = 301,
                          .max_blocks_per_slot = 9};
  std::vector<std::byte> bytes(StepRecordView::Bytes(limits));
  const StepRecordView record(bytes.data(), limits);
  *record.header = {.step = 77, .sample_count = 13, .block_update_count = 500, .reset_count = 100};
  for (int32_t r = 0; r < 300; ++r) {
    const int32_t count = r == 120 ? 3000 : 1 + r % 7;
    record.rows[r] = {r == 33 ? kNullSlot : r + 1, record.header->token_count, count, 5 * r};
    record.header->row_count++;
    record.header->token_count += count;
  }
  for (int32_t t = 0; t < record.header->token_count; ++t) {
    record.tokens[t] = t % 5 == 0 ? kTokenFromSlot : t;
  }
  for (int32_t i = 0; i < 100; ++i) {
    record.resets[i] = {3 * i, SlotState{.last_token = 1000 + i, .generation = 9, .seed = 1}};
    record.resets[i].state.stop_ids[kMaxStopIds - 1] = i;
  }
  for (int32_t i = 0; i < 500; ++i) record.block_updates[i] = {i % 290, i / 290 * 3, 7000 + i};
  std::vector<SlotState> slots(301);
  for (size_t s = 0; s < slots.size(); ++s) slots[s].last_token = static_cast<int32_t>(50000 + s);
  std::vector<int32_t> tables(static_cast<size_t>(limits.block_table_entries()), 1);
  std::vector<TokenMeta> tokens(6000);
  std::vector<std::byte> outcome(StepOutcomeView::Bytes(limits));

  const StepRecordView device_record(Send(bytes), limits);
  const StepOutcomeView device_outcome(Send(outcome), limits);
  const SlotTables device_tables{Send(slots), Send(tables), limits.max_blocks_per_slot};
  TokenMeta* device_tokens = Send(tokens);
  const int64_t before = device_->ClockNanos();
  ops().apply_record(*stream_, {device_record, device_outcome, device_tables, device_tokens, {}});
  Sync();
  const int64_t after = device_->ClockNanos();
  RunApplyRecord({record,
                  StepOutcomeView(outcome.data(), limits),
                  {slots.data(), tables.data(), limits.max_blocks_per_slot},
                  tokens.data(),
                  {}});

  std::vector<SlotState> actual_slots(slots.size());
  Receive(device_tables.slots, slots.size(), actual_slots.data());
  EXPECT_EQ(std::memcmp(actual_slots.data(), slots.data(), sizeof(SlotState) * slots.size()), 0);
  std::vector<int32_t> actual_tables(tables.size());
  Receive(device_tables.block_tables, tables.size(), actual_tables.data());
  EXPECT_EQ(actual_tables, tables);
  std::vector<TokenMeta> actual(tokens.size());
  Receive(device_tokens, tokens.size(), actual.data());
  EXPECT_EQ(std::memcmp(actual.data(), tokens.data(), sizeof(TokenMeta) * tokens.size()), 0);
  OutcomeHeader header;
  Receive(device_outcome.header, 1, &header);
  EXPECT_EQ(header.step, 77u);
  EXPECT_EQ(header.row_count, 13);
  EXPECT_GT(header.start_ns, before - 100000);  // the two clocks agree to some microseconds
  EXPECT_LT(header.start_ns, after + 100000);
}

// Products of every shape against double precision. The bias is rounded to the result's type where
// cuBLASLt adds it, and in matrices of odd widths so is the product before it.
class CudaMatmulTest : public CudaSmallOpsTest {
 protected:
  void Check(int32_t rows, int32_t max_rows, int32_t n, int32_t k, DType out_type, bool with_bias,
             Epilogue epilogue) {
    TestMatrix w = TestMatrix::Random(n, k, type(), 1);
    TestMatrix x = TestMatrix::Random(max_rows, k, type(), 2);
    const TestMatrix bias = TestMatrix::Random(1, n, DType::kF32, 3);
    TestMatrix out = TestMatrix::Random(max_rows, n, out_type, 4);
    const auto weight = ops().make_weight(*device_, type(), MatrixSource(w));
    ASSERT_TRUE(weight.ok()) << weight.status();
    const Matrix device_out = Send(out);
    ops().matmul(*stream_,
                 {.rows = Send(&rows, 1),
                  .max_rows = max_rows,
                  .x = Send(x),
                  .w = weight->get(),
                  .bias = with_bias ? Send(bias.floats(), static_cast<size_t>(n)) : nullptr,
                  .epilogue = epilogue,
                  .out = device_out});
    const TestMatrix actual = Receive(device_out, max_rows);
    for (int32_t r = 0; r < rows; ++r) {
      for (int32_t i = 0; i < n; ++i) {
        double y = with_bias ? bias(0, i) : 0;
        double magnitude = std::abs(y);
        if (epilogue == Epilogue::kAccumulate) {
          y += out(r, i);
          magnitude += std::abs(out(r, i));
        }
        for (int32_t j = 0; j < k; ++j) {
          y += x(r, j) * w(i, j);
          magnitude += std::abs(x(r, j) * w(i, j));
        }
        double rounded_bias = with_bias ? StoreError(out_type, bias(0, i)) : 0;
        if (with_bias && (n % 8 != 0 || k % 8 != 0))
          rounded_bias += StoreError(out_type, std::abs(y) + std::abs(bias(0, i)));
        ASSERT_NEAR(actual(r, i), y,
                    (k + 3) * kEps * magnitude + StoreError(out_type, y) + rounded_bias)
            << rows << " of " << max_rows << " rows, " << k << " x " << n << ", at " << r << ", "
            << i;
      }
    }
  }
  void CheckAll(int32_t rows, int32_t max_rows, int32_t n, int32_t k) {
    Check(rows, max_rows, n, k, DType::kF32, false, Epilogue::kStore);
    Check(rows, max_rows, n, k, type(), true, Epilogue::kStore);
    Check(rows, max_rows, n, k, DType::kF32, false, Epilogue::kAccumulate);
    Check(rows, max_rows, n, k, DType::kF32, true, Epilogue::kAccumulate);
  }
};

TEST_P(CudaMatmulTest, FewRows) {
  for (int32_t max_rows = 1; max_rows <= 9; ++max_rows) CheckAll(max_rows, max_rows, 96, 64);
  for (int32_t rows = 0; rows <= 8; ++rows) CheckAll(rows, 8, 33, 40);
}

TEST_P(CudaMatmulTest, ManyRows) {
  for (const int32_t rows : {9, 16, 17, 63, 64, 65, 130}) CheckAll(rows, rows, 80, 48);
  CheckAll(70, 150, 80, 48);
}

TEST_P(CudaMatmulTest, OddShapes) {
  for (const int32_t n : {1, 2, 15, 17, 130}) {
    for (const int32_t k : {1, 7, 34, 100, 515}) {
      CheckAll(3, 3, n, k);
      CheckAll(20, 20, n, k);
    }
  }
}

TEST_P(CudaMatmulTest, LongDepthsAndWideOutputs) {
  CheckAll(1, 1, 24, 20000);
  CheckAll(7, 8, 24, 9000);
  CheckAll(20, 20, 24, 9000);
  CheckAll(2, 2, 5003, 64);
  CheckAll(4, 4, 2304, 768);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaMatmulTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

}  // namespace
}  // namespace rally
