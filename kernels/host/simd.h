// Sixteen fp32 lanes in GCC's vector extension: one source for AVX-512, AVX2 and plain builds.
//
// A leaf function marked RALLY_SIMD_CLONES is compiled for all three and chosen when the program is
// loaded; the helpers below are inlined into it. Sanitizer builds have the plain version alone,
// since they cannot run the resolvers that choose.
#ifndef RALLY_KERNELS_HOST_SIMD_H_
#define RALLY_KERNELS_HOST_SIMD_H_

#include <cstdint>
#include <cstring>

#include "kernels/host/bfloat16.h"
#include "kernels/tensor.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define RALLY_SIMD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RALLY_SIMD_CLONES
#endif

namespace rally {

inline constexpr int kLanes = 16;
using V16 = float __attribute__((vector_size(64)));
using V16i = int32_t __attribute__((vector_size(64)));
using V16u = uint32_t __attribute__((vector_size(64)));
using V16h = uint16_t __attribute__((vector_size(32)));

RALLY_INLINE void Load(const float* p, V16* v) { std::memcpy(v, p, sizeof *v); }
RALLY_INLINE void Load(const BFloat16* p, V16* v) {
  V16h half;
  std::memcpy(&half, p, sizeof half);
  const V16u wide = __builtin_convertvector(half, V16u) << 16;
  std::memcpy(v, &wide, sizeof *v);
}
RALLY_INLINE void Store(const V16& v, float* p) { std::memcpy(p, &v, sizeof v); }
RALLY_INLINE void Store(const V16& v, BFloat16* p) {
  V16u bits;
  std::memcpy(&bits, &v, sizeof bits);
  const V16u rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const V16u chosen = v != v ? bits | 0x400000 : rounded;
  const V16h half = __builtin_convertvector(chosen >> 16, V16h);
  std::memcpy(p, &half, sizeof half);
}

RALLY_INLINE V16 Max(const V16& a, const V16& b) { return a > b ? a : b; }
RALLY_INLINE V16 Min(const V16& a, const V16& b) { return a < b ? a : b; }

// Sum of the lanes, as a tree.
RALLY_INLINE float Sum(const V16& v) {
  using V8 = float __attribute__((vector_size(32)));
  using V4 = float __attribute__((vector_size(16)));
  const V8 s8 = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const V4 s4 =
      __builtin_shufflevector(s8, s8, 0, 1, 2, 3) + __builtin_shufflevector(s8, s8, 4, 5, 6, 7);
  return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}

// exp(x) to 2 ulp for x in [-87, 88]; below it gives 0, above it saturates near the largest float,
// a NaN stays one. exp(x) = 2^n exp(r), |r| <= ln2 / 2, with the Taylor polynomial of degree 7.
RALLY_INLINE V16 Exp(const V16& x) {
  const V16 clamped = Min(Max(x, V16{} - 87.0f), V16{} + 88.0f);
  const V16 scaled = clamped * 1.44269504f;
  const V16 magic = V16{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const V16 n = (scaled + magic) - magic;
  const V16 r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  V16 p = V16{} + 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const V16i bits = (__builtin_convertvector(n, V16i) + 127) << 23;
  V16 power;
  std::memcpy(&power, &bits, sizeof power);
  const V16 finite = x < -87.0f ? V16{} : p * power;
  return x != x ? x : finite;
}

// Calls fn(row of T) for the element type of `m`. Host matrices are fp32 or bf16.
template <typename Fn>
RALLY_INLINE void WithType(DType dtype, const Fn& fn) {
  if (dtype == DType::kF32) {
    fn(float{});
  } else {
    fn(BFloat16{});
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_SIMD_H_
