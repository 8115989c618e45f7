#include <algorithm>
#include <cmath>

#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

// tanh(u) = 1 - 2 / (exp(2u) + 1); the absolute error stays near the fp32 epsilon.
RALLY_INLINE V16 Tanh(const V16& u) { return 1.0f - 2.0f / (Exp(2.0f * u) + 1.0f); }

RALLY_INLINE V16 GeluErf(const V16& x) {
  V16 y;
  for (int i = 0; i < kLanes; ++i) y[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f));
  return y;
}

RALLY_INLINE V16 Activate(ActivationKind kind, const V16& x) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return 0.5f * x * (1.0f + Tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case ActivationKind::kGeluErf:
      return GeluErf(x);
    case ActivationKind::kRelu:
      return x <= 0.0f ? V16{} : x;  // a NaN stays one
    case ActivationKind::kSilu:
      return x / (1.0f + Exp(-x));
  }
  return x;
}

// `count` <= 16 values.
template <typename T>
RALLY_INLINE V16 LoadSome(const T* p, int32_t count) {
  V16 v{};
  if (count == kLanes) {
    Load(p, &v);
  } else {
    for (int32_t i = 0; i < count; ++i) v[i] = ToFloat(p[i]);
  }
  return v;
}

template <typename From, typename To>
RALLY_INLINE void ActivateRow(const ActivationArgs& a, int64_t r) {
  const int32_t n = a.out.cols;
  const From* x = a.x.row<From>(r);
  To* out = a.out.row<To>(r);
  for (int32_t i = 0; i < n; i += kLanes) {
    const int32_t count = std::min(kLanes, n - i);
    V16 y = Activate(a.kind, LoadSome(x + i, count));
    if (a.gated != 0) y *= LoadSome(x + n + i, count);
    if (count == kLanes) {
      Store(y, out + i);
    } else {
      for (int32_t j = 0; j < count; ++j) out[i + j] = FromFloat<To>(y[j]);
    }
  }
}

RALLY_SIMD_CLONES void ActivateRowAnyType(const ActivationArgs& a, int64_t r) {
  if (a.x.dtype == DType::kF32 && a.out.dtype == DType::kF32) {
    ActivateRow<float, float>(a, r);
  } else if (a.x.dtype == DType::kF32) {
    ActivateRow<float, BFloat16>(a, r);
  } else if (a.out.dtype == DType::kF32) {
    ActivateRow<BFloat16, float>(a, r);
  } else {
    ActivateRow<BFloat16, BFloat16>(a, r);
  }
}

}  // namespace

void RunActivation(const ActivationArgs& a) {
  constexpr int64_t kCostOfOne = 8;
  ParallelFor(*a.rows, int64_t{*a.rows} * a.out.cols * kCostOfOne,
              [&](int64_t r) { ActivateRowAnyType(a, r); });
}

}  // namespace rally
