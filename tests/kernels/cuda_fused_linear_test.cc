// The fused product of decode rows against double arithmetic, over the plans that it makes: tile
// sizes, a depth shared by a cluster, blocks that walk over tiles.
//
// Tolerance: x normed in fp32 is rounded to the weights' type, relative error u = 2^-9, so a sum is
// off by u sum |x w| at most, and by the error of fp32 sums beside. Activations have slopes below
// 1.2. A gated result is a product of two such sums.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/cuda_op_test.h"

namespace rally {
namespace {

struct LinearCase {
  int32_t rows = 0;
  int32_t max_rows = 0;
  int32_t n = 0;  // of out
  int32_t k = 0;
  bool normed = false;
  bool layer_norm = false;
  bool sampled = false;
  bool biased = false;
  bool accumulated = false;
  bool gated = false;
  bool activated = false;
  ActivationKind activation = ActivationKind::kGeluTanh;
};

struct Sum {
  double value = 0;
  double error = 0;
};

double Activated(ActivationKind kind, double x) {
  if (kind == ActivationKind::kSilu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

class CudaFusedLinearTest : public CudaOpTest {
 protected:
  static constexpr double kUnit = 0x1p-9;
  static constexpr double kSlope = 1.2;
  static constexpr float kEpsilon = 1e-5f;

  void Check(const LinearCase& c) {
    SCOPED_TRACE(testing::Message()
                 << c.rows << " of " << c.max_rows << " rows, " << c.k << " x " << c.n
                 << (c.normed ? ", normed" : "") << (c.gated ? ", gated" : ""));
    const int32_t weight_rows = c.gated ? 2 * c.n : c.n;
    const DType out_type = c.accumulated ? DType::kF32 : DType::kBF16;
    const int32_t x_rows = c.sampled ? 2 * c.max_rows : c.max_rows;
    const float scale = 1 / std::sqrt(static_cast<float>(c.k));
    TestMatrix w = TestMatrix::Random(weight_rows, c.k, DType::kBF16, 1, scale);
    TestMatrix x = TestMatrix::Random(x_rows, c.k, c.normed ? DType::kF32 : DType::kBF16, 2, 3);
    TestMatrix norm = TestMatrix::Random(2, c.k, DType::kF32, 3);
    const TestMatrix bias = TestMatrix::Random(1, weight_rows, DType::kF32, 4);
    TestMatrix out = TestMatrix::Random(c.max_rows, c.n, out_type, 5);
    std::vector<StepSample> samples;
    for (int32_t r = 0; r < c.max_rows; ++r) samples.push_back({2 * r + 1, r + 1});

    const auto weight = ops().make_weight(*device_, DType::kBF16, MatrixSource(w));
    ASSERT_TRUE(weight.ok()) << weight.status();
    const float* norms = Send(norm.floats(), static_cast<size_t>(2 * c.k));
    const Matrix device_out = Send(out);
    const bool taken = ops().fused_linear(
        *stream_,
        {.rows = Send(c.rows, c.max_rows),
         .samples = c.sampled ? Send(samples) : nullptr,
         .x = Send(x),
         .norm_weight = c.normed ? norms : nullptr,
         .norm_bias = c.layer_norm ? norms + c.k : nullptr,
         .norm_epsilon = kEpsilon,
         .w = weight->get(),
         .bias = c.biased ? Send(bias.floats(), static_cast<size_t>(weight_rows)) : nullptr,
         .activated = c.activated ? 1 : 0,
         .activation = c.activation,
         .gated = c.gated ? 1 : 0,
         .epilogue = c.accumulated ? Epilogue::kAccumulate : Epilogue::kStore,
         .out = device_out});
    ASSERT_TRUE(taken);
    const TestMatrix actual = Receive(device_out, c.max_rows);
    for (int32_t r = 0; r < c.max_rows; ++r) {
      if (r >= c.rows) {
        for (int32_t i = 0; i < c.n; ++i) ASSERT_EQ(actual(r, i), out(r, i)) << r << ", " << i;
        continue;
      }
      const std::vector<double> input = Input(c, x, norm, c.sampled ? 2 * r + 1 : r);
      for (int32_t i = 0; i < c.n; ++i) {
        Sum y = Product(c, input, w, bias, i);
        if (c.activated) y = {Activated(c.activation, y.value), kSlope * y.error};
        if (c.gated) {
          const Sum up = Product(c, input, w, bias, i + c.n);
          y = {y.value * up.value,
               y.error * (std::abs(up.value) + up.error) + std::abs(y.value) * up.error};
        }
        if (c.accumulated) y.value += out(r, i);
        ASSERT_NEAR(actual(r, i), y.value, y.error + StoreError(out_type, y.value) + 1e-6)
            << r << ", " << i;
      }
    }
  }

  static std::vector<double> Input(const LinearCase& c, const TestMatrix& x, const TestMatrix& norm,
                                   int32_t row) {
    std::vector<double> values(static_cast<size_t>(c.k));
    for (int32_t j = 0; j < c.k; ++j) values[static_cast<size_t>(j)] = x(row, j);
    if (!c.normed) return values;
    double mean = 0;
    for (const double v : values) mean += v / c.k;
    if (!c.layer_norm) mean = 0;
    double squares = 0;
    for (const double v : values) squares += (v - mean) * (v - mean) / c.k;
    for (int32_t j = 0; j < c.k; ++j) {
      double& v = values[static_cast<size_t>(j)];
      v = (v - mean) / std::sqrt(squares + kEpsilon) * norm(0, j) + (c.layer_norm ? norm(1, j) : 0);
    }
    return values;
  }

  static Sum Product(const LinearCase& c, const std::vector<double>& x, const TestMatrix& w,
                     const TestMatrix& bias, int32_t row) {
    Sum sum;
    double magnitude = 0;
    for (int32_t j = 0; j < c.k; ++j) {
      const double product = x[static_cast<size_t>(j)] * w(row, j);
      sum.value += product;
      magnitude += std::abs(product);
    }
    if (c.biased) sum.value += bias(0, row);
    if (c.biased) magnitude += std::abs(bias(0, row));
    sum.error = magnitude * ((c.k + 3) * kEps + (c.normed ? kUnit + 20 * kEps : 0));
    return sum;
  }
};

TEST_F(CudaFusedLinearTest, RowCounts) {
  for (const int32_t rows : {1, 9, 16, 17, 32, 33, 64, 70}) {
    Check({.rows = rows, .max_rows = rows, .n = 24, .k = 64, .biased = true});
  }
  Check({.rows = 0, .max_rows = 20, .n = 24, .k = 64});
  Check({.rows = 11, .max_rows = 40, .n = 24, .k = 64, .biased = true});
}

TEST_F(CudaFusedLinearTest, NormsActivationsAndGates) {
  for (const int32_t rows : {12, 30, 50}) {
    Check({.rows = rows,
           .max_rows = rows,
           .n = 40,
           .k = 96,
           .normed = true,
           .layer_norm = true,
           .biased = true,
           .activated = true});
    Check({.rows = rows,
           .max_rows = rows,
           .n = 20,
           .k = 160,
           .normed = true,
           .gated = true,
           .activated = true,
           .activation = ActivationKind::kSilu});
    Check({.rows = rows,
           .max_rows = rows,
           .n = 12,
           .k = 96,
           .normed = true,
           .layer_norm = true,
           .biased = true,
           .gated = true,
           .activated = true});
  }
}

TEST_F(CudaFusedLinearTest, ResidualsOfDeepProducts) {
  for (const int32_t k : {32, 96, 512, 1056, 1568}) {
    Check({.rows = 19, .max_rows = 20, .n = 8, .k = k, .biased = true, .accumulated = true});
  }
}

TEST_F(CudaFusedLinearTest, BlocksWalkOverTheTilesOfAWideProduct) {
  Check({.rows = 10, .max_rows = 13, .n = 5003, .k = 64, .normed = true, .sampled = true});
  Check({.rows = 33,
         .max_rows = 33,
         .n = 1500,
         .k = 96,
         .normed = true,
         .layer_norm = true,
         .sampled = true});
}

TEST_F(CudaFusedLinearTest, RefusesWhatItCannotTake) {
  TestMatrix w = TestMatrix::Random(8, 40, DType::kBF16, 1);
  TestMatrix x = TestMatrix::Random(9, 40, DType::kBF16, 2);
  TestMatrix out(9, 8, DType::kBF16);
  const auto weight = ops().make_weight(*device_, DType::kBF16, MatrixSource(w));
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_FALSE(ops().fused_linear(
      *stream_, {.rows = Send(9, 9), .x = Send(x), .w = weight->get(), .out = Send(out)}));
}

}  // namespace
}  // namespace rally
