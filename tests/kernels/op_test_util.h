// Matrices of random values for op tests, with what the ops see of them in double.
//
// Tolerances. A sum of n products in fp32, in any order, is off by at most n eps sum |a_i b_i|
// (Higham, Accuracy and Stability, 3.1; eps = 2^-24 a rounding); bf16 values multiply exactly in
// fp32. Storing y as bf16 adds |y| 2^-8.
#ifndef RALLY_TESTS_KERNELS_OP_TEST_UTIL_H_
#define RALLY_TESTS_KERNELS_OP_TEST_UTIL_H_

#include <cmath>
#include <random>
#include <vector>

#include "kernels/host/bfloat16.h"
#include "kernels/ops.h"

namespace rally {

inline constexpr double kEps = 0x1p-24;

// The error that storing y adds.
inline double StoreError(DType dtype, double y) {
  return std::abs(y) * (dtype == DType::kBF16 ? 0x1p-8 : kEps);
}

class TestMatrix {
 public:
  TestMatrix(int64_t rows, int32_t cols, DType dtype)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        bytes_(static_cast<size_t>(rows * cols) * DTypeBytes(dtype)) {}

  static TestMatrix Random(int64_t rows, int32_t cols, DType dtype, uint32_t seed,
                           float scale = 1) {
    TestMatrix m(rows, cols, dtype);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    for (int64_t r = 0; r < rows; ++r) {
      for (int32_t c = 0; c < cols; ++c) m.Set(r, c, normal(random));
    }
    return m;
  }

  double operator()(int64_t r, int64_t c) const {
    const auto i = static_cast<size_t>(r * cols_ + c);
    return dtype_ == DType::kF32 ? reinterpret_cast<const float*>(bytes_.data())[i]
                                 : ToFloat(reinterpret_cast<const BFloat16*>(bytes_.data())[i]);
  }
  void Set(int64_t r, int64_t c, float value) {
    const auto i = static_cast<size_t>(r * cols_ + c);
    if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(bytes_.data())[i] = value;
    } else {
      reinterpret_cast<BFloat16*>(bytes_.data())[i] = FromFloat<BFloat16>(value);
    }
  }

  Matrix view() { return {bytes_.data(), dtype_, cols_, cols_}; }
  const float* floats() const { return reinterpret_cast<const float*>(bytes_.data()); }
  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int32_t cols() const { return cols_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  DType dtype_;
  int64_t rows_;
  int32_t cols_;
  std::vector<std::byte> bytes_;
};

class MatrixSource final : public RowSource {
 public:
  explicit MatrixSource(const TestMatrix& m) : m_(m) {}
  int64_t rows() const override { return m_.rows(); }
  int64_t cols() const override { return m_.cols(); }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    for (int64_t r = first; r < first + count; ++r) {
      for (int64_t c = 0; c < cols(); ++c) *out++ = static_cast<float>(m_(r, c));
    }
    return absl::OkStatus();
  }

 private:
  const TestMatrix& m_;
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_OP_TEST_UTIL_H_
