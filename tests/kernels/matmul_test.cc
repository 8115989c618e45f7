// Matrix products of every kind that the host runs, against double precision.
#include "kernels/host/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "tests/kernels/op_test_util.h"

namespace rally {
namespace {

struct Case {
  DType dtype;
  WeightLayout layout;
  DType out;
  bool bias;
  Epilogue epilogue;
};

class MatmulTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    if (c.layout == WeightLayout::kPanels && !HostHasAvx512()) GTEST_SKIP() << "no AVX-512";
    if (c.dtype == DType::kBF16 && !HostHasBf16()) GTEST_SKIP() << "no AVX512-BF16";
  }

  // `max_rows` rows are there, `rows` count; the others must stay what they are or be computed, but
  // nothing beyond them may be read (the address sanitizer sees that).
  void Check(int32_t rows, int32_t max_rows, int32_t n, int32_t k) {
    const Case& c = GetParam();
    TestMatrix w = TestMatrix::Random(n, k, c.dtype, 1);
    TestMatrix x = TestMatrix::Random(max_rows, k, c.dtype, 2);
    const TestMatrix bias = TestMatrix::Random(1, n, DType::kF32, 3);
    TestMatrix out = TestMatrix::Random(max_rows, n, c.out, 4);
    const TestMatrix before = out;
    const auto weight = MakeHostWeight(*device_, c.dtype, c.layout, MatrixSource(w));
    ASSERT_TRUE(weight.ok()) << weight.status();
    const auto planned = PlanMatmul({.rows = &rows,
                                     .max_rows = max_rows,
                                     .x = x.view(),
                                     .w = weight->get(),
                                     .bias = c.bias ? bias.floats() : nullptr,
                                     .epilogue = c.epilogue,
                                     .out = out.view()});
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE(RunMatmul(*planned).ok());
    for (int32_t r = 0; r < rows; ++r) {
      for (int32_t i = 0; i < n; ++i) {
        double y = c.bias ? bias(0, i) : 0;
        double magnitude = std::abs(y);
        if (c.epilogue == Epilogue::kAccumulate) {
          y += before(r, i);
          magnitude += std::abs(before(r, i));
        }
        for (int32_t j = 0; j < k; ++j) {
          y += x(r, j) * w(i, j);
          magnitude += std::abs(x(r, j) * w(i, j));
        }
        ASSERT_NEAR(out(r, i), y, (k + 3) * kEps * magnitude + StoreError(c.out, y))
            << rows << " of " << max_rows << " rows, " << k << " x " << n << ", at " << r << ", "
            << i;
      }
    }
  }

  std::unique_ptr<Device> device_ = *NewHostDevice({.threads = 2});
};

TEST_P(MatmulTest, EveryRowCountOfADecodeStep) {
  for (int32_t rows = 0; rows <= 20; ++rows) Check(rows, 20, 96, 64);
}

TEST_P(MatmulTest, PrefillRowsAboveAndBelowTheLadder) {
  for (const int32_t rows : {63, 64, 65, 96, 97, 129, 150}) Check(rows, 150, 80, 48);
}

TEST_P(MatmulTest, ShapesThatFillNoPanel) {
  for (const int32_t n : {1, 15, 16, 17, 33, 63, 65, 130}) {
    for (const int32_t k : {2, 6, 30, 34, 100}) {
      Check(3, 3, n, k);
      Check(70, 70, n, k);
    }
  }
}

TEST_P(MatmulTest, ALongDepth) { Check(5, 8, 40, 1536); }

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [dtype, layout] : {std::pair{DType::kF32, WeightLayout::kPanels},
                                      {DType::kF32, WeightLayout::kRowMajor},
                                      {DType::kBF16, WeightLayout::kPanels}}) {
    cases.push_back({dtype, layout, DType::kF32, false, Epilogue::kStore});
    cases.push_back({dtype, layout, dtype, true, Epilogue::kStore});
    cases.push_back({dtype, layout, DType::kF32, false, Epilogue::kAccumulate});
    cases.push_back({dtype, layout, DType::kF32, true, Epilogue::kAccumulate});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest, testing::ValuesIn(AllCases()), [](const auto& param) {
  const Case& c = param.param;
  return std::string(DTypeName(c.dtype)) + "_" + std::string(DTypeName(c.out)) +
         (c.layout == WeightLayout::kPanels ? "_panels" : "_rows") + (c.bias ? "_bias" : "") +
         (c.epilogue == Epilogue::kAccumulate ? "_accumulate" : "");
});

TEST(HostWeightTest, RefusesWhatItCannotCompute) {
  const auto device = *NewHostDevice({});
  const TestMatrix odd = TestMatrix::Random(4, 3, DType::kF32, 1);
  const auto& ops = device->ops();
  EXPECT_TRUE(
      absl::IsUnimplemented(ops.make_weight(*device, DType::kF16, MatrixSource(odd)).status()));
  EXPECT_TRUE(
      absl::IsUnimplemented(ops.make_weight(*device, DType::kBF16, MatrixSource(odd)).status()));
  float out[12];
  EXPECT_TRUE(absl::IsUnimplemented(ops.upload(*device, DType::kF16, MatrixSource(odd), out)));
  const TestMatrix empty(0, 3, DType::kF32);
  EXPECT_TRUE(
      absl::IsInvalidArgument(ops.make_weight(*device, DType::kF32, MatrixSource(empty)).status()));
}

TEST(HostWeightTest, UploadRoundsToNearestEven) {
  const auto device = *NewHostDevice({});
  TestMatrix m(1, 5, DType::kF32);
  const float values[] = {1.0f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, -1.0f - 0x1p-8f - 0x1p-20f, 0.0f};
  for (int i = 0; i < 5; ++i) m.Set(0, i, values[i]);
  BFloat16 out[5];
  ASSERT_TRUE(device->ops().upload(*device, DType::kBF16, MatrixSource(m), out).ok());
  const float rounded[] = {1.0f, 1.0f, 1.0f + 0x4p-8f, -1.0f - 0x2p-8f, 0.0f};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ToFloat(out[i]), rounded[i]) << i;
}

}  // namespace
}  // namespace rally
