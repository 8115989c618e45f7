// The ops between the matrix products, against plain double-precision formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/host/host_ops.h"
#include "tests/kernels/op_test_util.h"

namespace rally {
namespace {

class SmallOpsTest : public testing::TestWithParam<DType> {};

TEST_P(SmallOpsTest, EmbedAddsPositions) {
  TestMatrix table = TestMatrix::Random(9, 20, GetParam(), 1);
  TestMatrix positions = TestMatrix::Random(5, 20, GetParam(), 2);
  TestMatrix out(3, 20, DType::kF32);
  const std::vector<TokenMeta> tokens = {{8, 0, 1}, {0, 4, 1}, {3, 2, 2}};
  const int32_t rows = 3;
  EmbedArgs args{&rows, tokens.data(), table.view(), positions.view(), out.view()};
  RunEmbed(args);
  for (int r = 0; r < 3; ++r) {
    const TokenMeta& t = tokens[static_cast<size_t>(r)];
    for (int c = 0; c < 20; ++c) {
      const double y = table(t.id, c) + positions(t.position, c);
      ASSERT_NEAR(out(r, c), y, std::abs(y) * kEps);
    }
  }
  args.positions = {};
  RunEmbed(args);
  for (int c = 0; c < 20; ++c) ASSERT_EQ(out(0, c), table(8, c));
}

// Mean and variance are sums of n terms; each factor after them adds a rounding.
TEST_P(SmallOpsTest, NormsOfBothKinds) {
  for (const int32_t n : {1, 16, 40, 67, 576}) {
    for (const bool layer_norm : {false, true}) {
      TestMatrix x = TestMatrix::Random(3, n, DType::kF32, 5, 3);
      const TestMatrix weight = TestMatrix::Random(1, n, DType::kF32, 6);
      const TestMatrix bias = TestMatrix::Random(1, n, DType::kF32, 7);
      TestMatrix out(3, n, GetParam());
      const int32_t rows = 3;
      RunNorm({&rows, x.view(), weight.floats(), layer_norm ? bias.floats() : nullptr, 1e-5f,
               out.view()});
      for (int r = 0; r < 3; ++r) {
        double mean = 0, largest = 0, squares = 0;
        for (int i = 0; i < n; ++i) {
          mean += layer_norm ? x(r, i) / n : 0;
          largest = std::max(largest, std::abs(x(r, i)));
        }
        for (int i = 0; i < n; ++i) squares += std::pow(x(r, i) - mean, 2) / n;
        const double factor = 1 / std::sqrt(squares + 1e-5);
        for (int i = 0; i < n; ++i) {
          const double shift = layer_norm ? bias(0, i) : 0;
          const double y = (x(r, i) - mean) * factor * weight(0, i);
          // The mean is off by n eps largest, and that error is scaled as x is.
          const double error =
              (n + 6) * kEps * (std::abs(y) + largest * factor * std::abs(weight(0, i))) +
              kEps * std::abs(shift);
          ASSERT_NEAR(out(r, i), y + shift, error + StoreError(GetParam(), y + shift))
              << n << (layer_norm ? " LayerNorm" : " RMSNorm");
        }
      }
    }
  }
}

TEST_P(SmallOpsTest, HeadNormTouchesItsHeadsOnly) {
  TestMatrix x = TestMatrix::Random(2, 40, GetParam(), 3);
  const TestMatrix before = x;
  const TestMatrix weight = TestMatrix::Random(1, 8, DType::kF32, 4);
  const int32_t rows = 2;
  RunHeadNorm({&rows, x.view(), 16, 2, 8, weight.floats(), 1e-6f});
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 40; ++c) {
      if (c < 16 || c >= 32) {
        ASSERT_EQ(x(r, c), before(r, c));
        continue;
      }
      double squares = 0;
      for (int i = 0; i < 8; ++i) squares += std::pow(before(r, c / 8 * 8 + i), 2) / 8;
      const double y = before(r, c) / std::sqrt(squares + 1e-6) * weight(0, c % 8);
      ASSERT_NEAR(x(r, c), y, 14 * kEps * std::abs(y) + StoreError(GetParam(), y));
    }
  }
}

// The angle is fp32 as in the models' own code: position * inv_freq is off by angle * eps.
TEST_P(SmallOpsTest, RopeTurnsPairsOfHalves) {
  const int32_t rotary = 8, dh = 12, heads = 2;
  const float inv_freq[] = {1.0f, 0.3f, 0.05f, 0.002f};
  for (const int32_t position : {0, 1, 77, 4000}) {
    TestMatrix x = TestMatrix::Random(1, 30, GetParam(), 8);
    const TestMatrix before = x;
    const TokenMeta token{0, position, 1};
    const int32_t rows = 1;
    RunRope({&rows, &token, x.view(), 3, heads, dh, rotary, inv_freq, 1.25f});
    for (int c = 0; c < 30; ++c) {
      const int in_head = (c - 3) % dh;
      double y = before(0, c), error = 0;
      if (c >= 3 && c < 3 + heads * dh && in_head < rotary) {
        const bool first = in_head < rotary / 2;
        const double angle =
            static_cast<double>(position) * double{inv_freq[in_head % (rotary / 2)]};
        const double other = before(0, first ? c + rotary / 2 : c - rotary / 2);
        y = 1.25 * (y * std::cos(angle) + (first ? -other : other) * std::sin(angle));
        error = (angle + 6) * kEps * 1.25 * (std::abs(before(0, c)) + std::abs(other));
        error += StoreError(GetParam(), y);
      }
      ASSERT_NEAR(x(0, c), y, error) << "position " << position << ", column " << c;
    }
  }
}

// exp is right to 2 ulp, so a quotient of it is to 4; GELU's tanh has that as absolute error.
TEST_P(SmallOpsTest, Activations) {
  const int32_t width = 37;
  for (const ActivationKind kind : {ActivationKind::kGeluTanh, ActivationKind::kGeluErf,
                                    ActivationKind::kRelu, ActivationKind::kSilu}) {
    for (const int32_t gated : {0, 1}) {
      TestMatrix x = TestMatrix::Random(2, width * (1 + gated), GetParam(), 9, 4);
      x.Set(0, 0, -200), x.Set(0, 1, 200), x.Set(0, 2, 0);
      TestMatrix out(2, width, GetParam());
      const int32_t rows = 2;
      RunActivation({&rows, kind, gated, x.view(), out.view()});
      for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < width; ++c) {
          const double v = x(r, c);
          double y = 0;
          switch (kind) {
            case ActivationKind::kGeluTanh:
              y = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
              break;
            case ActivationKind::kGeluErf:
              y = 0.5 * v * (1 + std::erf(v / std::sqrt(2)));
              break;
            case ActivationKind::kRelu:
              y = std::max(v, 0.0);
              break;
            case ActivationKind::kSilu:
              y = v / (1 + std::exp(-v));
              break;
          }
          const double up = gated != 0 ? x(r, width + c) : 1;
          // The argument of tanh and exp grows with v, and its relative error with it.
          const double error = (8 + std::abs(v)) * kEps * std::abs(v * up);
          ASSERT_NEAR(out(r, c), y * up, error + StoreError(GetParam(), y * up))
              << static_cast<int>(kind) << " at " << v;
        }
      }
    }
  }
}

TEST_P(SmallOpsTest, ANaNStaysOne) {
  TestMatrix x(1, 40, GetParam());
  x.Set(0, 3, std::numeric_limits<float>::quiet_NaN());
  x.Set(0, 38, std::numeric_limits<float>::quiet_NaN());
  TestMatrix out(1, 40, GetParam());
  const int32_t rows = 1;
  for (const ActivationKind kind : {ActivationKind::kGeluTanh, ActivationKind::kGeluErf,
                                    ActivationKind::kRelu, ActivationKind::kSilu}) {
    RunActivation({&rows, kind, 0, x.view(), out.view()});
    for (int c = 0; c < 40; ++c) ASSERT_EQ(std::isnan(out(0, c)), c == 3 || c == 38) << c;
  }
}

TEST(GatherTest, TakesTheSampledRows) {
  TestMatrix x = TestMatrix::Random(5, 7, DType::kF32, 1);
  TestMatrix out(3, 7, DType::kF32);
  const std::vector<StepSample> samples = {{4, 1}, {0, 2}, {2, 3}};
  const int32_t rows = 2;
  RunGather({&rows, samples.data(), x.view(), out.view()});
  for (int c = 0; c < 7; ++c) {
    EXPECT_EQ(out(0, c), x(4, c));
    EXPECT_EQ(out(1, c), x(0, c));
    EXPECT_EQ(out(2, c), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SmallOpsTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& p) { return std::string(DTypeName(p.param)); });

}  // namespace
}  // namespace rally
