#include <cmath>

#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

RALLY_INLINE float SumOf(const float* x, int32_t n) {
  V16 sums{};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V16 v;
    Load(x + i, &v);
    sums += v;
  }
  float sum = Sum(sums);
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// Sum of (x - mean)^2.
RALLY_INLINE float SquaresOf(const float* x, int32_t n, float mean) {
  V16 sums{};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V16 v;
    Load(x + i, &v);
    v -= mean;
    sums += v * v;
  }
  float sum = Sum(sums);
  for (; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

template <typename T>
RALLY_INLINE void NormRow(const NormArgs& a, int64_t r) {
  const int32_t n = a.x.cols;
  const float* x = a.x.row<float>(r);
  T* out = a.out.row<T>(r);
  const auto width = static_cast<float>(n);
  const float mean = a.bias == nullptr ? 0.0f : SumOf(x, n) / width;
  const float factor = 1.0f / std::sqrt(SquaresOf(x, n, mean) / width + a.epsilon);
  for (int32_t i = 0; i < n; ++i) {
    const float y = (x[i] - mean) * factor * a.weight[i];
    out[i] = FromFloat<T>(a.bias == nullptr ? y : y + a.bias[i]);
  }
}

RALLY_SIMD_CLONES void NormRowF32(const NormArgs& a, int64_t r) { NormRow<float>(a, r); }
RALLY_SIMD_CLONES void NormRowBf16(const NormArgs& a, int64_t r) { NormRow<BFloat16>(a, r); }

}  // namespace

void RunNorm(const NormArgs& a) {
  const auto row = a.out.dtype == DType::kF32 ? &NormRowF32 : &NormRowBf16;
  ParallelFor(*a.rows, int64_t{*a.rows} * a.x.cols, [&](int64_t r) { row(a, r); });
}

}  // namespace rally
