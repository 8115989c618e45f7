#include <cmath>

#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

template <typename T>
RALLY_INLINE void NormHeads(const HeadNormArgs& a, int64_t t) {
  for (int32_t h = 0; h < a.heads; ++h) {
    T* x = a.x.row<T>(t) + a.first_col + int64_t{h} * a.head_dim;
    float squares = 0;
    for (int32_t i = 0; i < a.head_dim; ++i) squares += ToFloat(x[i]) * ToFloat(x[i]);
    const float factor = 1.0f / std::sqrt(squares / static_cast<float>(a.head_dim) + a.epsilon);
    for (int32_t i = 0; i < a.head_dim; ++i) {
      x[i] = FromFloat<T>(ToFloat(x[i]) * factor * a.weight[i]);
    }
  }
}

RALLY_SIMD_CLONES void NormHeadsF32(const HeadNormArgs& a, int64_t t) { NormHeads<float>(a, t); }
RALLY_SIMD_CLONES void NormHeadsBf16(const HeadNormArgs& a, int64_t t) {
  NormHeads<BFloat16>(a, t);
}

}  // namespace

void RunHeadNorm(const HeadNormArgs& a) {
  const auto heads = a.x.dtype == DType::kF32 ? &NormHeadsF32 : &NormHeadsBf16;
  ParallelFor(*a.rows, int64_t{*a.rows} * a.heads * a.head_dim, [&](int64_t t) { heads(a, t); });
}

}  // namespace rally
