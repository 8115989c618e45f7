// The random numbers that order threads and delay copies (SplitMix64; Steele, Lea, Flood, 2014).
#ifndef RALLY_TESTS_CUDA_EMULATION_RANDOM_H_
#define RALLY_TESTS_CUDA_EMULATION_RANDOM_H_

#include <cstdint>

namespace rally::emulation {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, bound).
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>((Next() >> 32) * bound >> 32);
  }
  bool OneIn(uint32_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_RANDOM_H_
