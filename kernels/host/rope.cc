#include <cmath>

#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

constexpr int32_t kMaxPairs = 128;  // heads have at most 256 values

template <typename T>
RALLY_INLINE void RotateHeads(const RopeArgs& a, int64_t t, const float* cosine,
                              const float* sine) {
  const int32_t pairs = a.rotary_dim / 2;
  for (int32_t h = 0; h < a.heads; ++h) {
    T* x = a.x.row<T>(t) + a.first_col + int64_t{h} * a.head_dim;
    T* y = x + pairs;
    for (int32_t i = 0; i < pairs; ++i) {
      const float x0 = ToFloat(x[i]);
      const float y0 = ToFloat(y[i]);
      x[i] = FromFloat<T>(x0 * cosine[i] - y0 * sine[i]);
      y[i] = FromFloat<T>(y0 * cosine[i] + x0 * sine[i]);
    }
  }
}

RALLY_SIMD_CLONES void RotateF32(const RopeArgs& a, int64_t t, const float* cosine,
                                 const float* sine) {
  RotateHeads<float>(a, t, cosine, sine);
}
RALLY_SIMD_CLONES void RotateBf16(const RopeArgs& a, int64_t t, const float* cosine,
                                  const float* sine) {
  RotateHeads<BFloat16>(a, t, cosine, sine);
}

}  // namespace

void RunRope(const RopeArgs& a) {
  const auto rotate = a.x.dtype == DType::kF32 ? &RotateF32 : &RotateBf16;
  ParallelFor(*a.rows, int64_t{*a.rows} * a.heads * a.rotary_dim, [&](int64_t t) {
    float cosine[kMaxPairs], sine[kMaxPairs];
    for (int32_t i = 0; i < a.rotary_dim / 2; ++i) {
      const float angle = static_cast<float>(a.tokens[t].position) * a.inv_freq[i];
      cosine[i] = std::cos(angle) * a.scale;
      sine[i] = std::sin(angle) * a.scale;
    }
    rotate(a, t, cosine, sine);
  });
}

}  // namespace rally
