// CUDA's atomics. One host thread runs everything, so they are plain; other threads may run between
// one and the next.
#ifndef RALLY_TESTS_CUDA_EMULATION_CUDA_ATOMICS_H_
#define RALLY_TESTS_CUDA_EMULATION_CUDA_ATOMICS_H_

#include <type_traits>

#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {

template <typename T, typename Update>
T Atomically(T* p, const Update& update) {
  Wave::Current().PassSometimes();
  const T old = *p;
  *p = update(old);
  return old;
}

}  // namespace rally::emulation

template <typename T>
T atomicAdd(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) -> T {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(x));
    } else {
      return old + x;
    }
  });
}
template <typename T>
T atomicSub(T* p, std::type_identity_t<T> x) {
  using Unsigned = std::make_unsigned_t<T>;
  return rally::emulation::Atomically(p, [&](T old) {
    return static_cast<T>(static_cast<Unsigned>(old) - static_cast<Unsigned>(x));
  });
}
template <typename T>
T atomicExch(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T) { return x; });
}
template <typename T>
T atomicMax(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return old < x ? x : old; });
}
template <typename T>
T atomicMin(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return x < old ? x : old; });
}
template <typename T>
T atomicAnd(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return old & x; });
}
template <typename T>
T atomicOr(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return old | x; });
}
template <typename T>
T atomicXor(T* p, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return old ^ x; });
}
template <typename T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> x) {
  return rally::emulation::Atomically(p, [&](T old) { return old == expected ? x : old; });
}
inline unsigned atomicInc(unsigned* p, unsigned last) {
  return rally::emulation::Atomically(p, [&](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* p, unsigned last) {
  return rally::emulation::Atomically(
      p, [&](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}

#endif  // RALLY_TESTS_CUDA_EMULATION_CUDA_ATOMICS_H_
