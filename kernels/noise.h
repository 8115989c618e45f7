// The sampling noise that every device shares: exponential variates from a counter.
//
// Gumbel-max sampling takes argmax(z_i - log(E_i)). E_i must be a function of (seed, position in
// the output, token id) alone, so that neither the row, the batch nor a restart moves it. Each
// coordinate goes through the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, with the
// constants of Stafford's variant 13), a bijection of 64 bits that passes BigCrush on counters.
//
// The bits and the uniform are exact in fp32 and so equal on every device; the logarithms may
// differ in their last place.
#ifndef RALLY_KERNELS_NOISE_H_
#define RALLY_KERNELS_NOISE_H_

#include <cstdint>

#ifdef __CUDACC__
#define RALLY_NOISE_FN __host__ __device__ constexpr
#else
#define RALLY_NOISE_FN constexpr
#endif

namespace rally {

RALLY_NOISE_FN uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// One a row: the stream of the token at `output_count` of the output.
RALLY_NOISE_FN uint64_t NoiseKey(uint64_t seed, int32_t output_count) {
  return Mix64(Mix64(seed + 0x9e3779b97f4a7c15u) + static_cast<uint32_t>(output_count));
}

RALLY_NOISE_FN uint32_t NoiseBits(uint64_t key, int32_t id) {
  return static_cast<uint32_t>(
      Mix64(key + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(static_cast<uint32_t>(id)) + 1)) >>
      32);
}

// v in [2^-33, 1 - 2^-24], fine near 0: E = -log1p(-v) is smallest there, and the smallest E wins.
RALLY_NOISE_FN float NoiseUniform(uint32_t bits) {
  const float v = (static_cast<float>(bits) + 0.5f) * 0x1p-32f;
  return v < 1.0f ? v : 1.0f - 0x1p-24f;
}

// No -log(E) is above this: E >= v >= 2^-33.
inline constexpr float kMaxNoise = 22.88f;

}  // namespace rally

#endif  // RALLY_KERNELS_NOISE_H_
