// bf16 values of the host ops: the upper half of an fp32.
#ifndef RALLY_KERNELS_HOST_BFLOAT16_H_
#define RALLY_KERNELS_HOST_BFLOAT16_H_

#include <cstdint>
#include <cstring>

// Inlined into callers that are compiled for several instruction sets.
#define RALLY_INLINE inline __attribute__((always_inline))

namespace rally {

struct BFloat16 {
  uint16_t bits;
};

RALLY_INLINE float ToFloat(float x) { return x; }
RALLY_INLINE float ToFloat(BFloat16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// Rounds to nearest even; a NaN stays one.
template <typename T>
RALLY_INLINE T FromFloat(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return T{static_cast<uint16_t>((x != x ? bits | 0x400000 : rounded) >> 16)};
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_BFLOAT16_H_
