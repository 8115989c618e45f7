// Loops over OpenMP threads. ThreadSanitizer builds run them on the calling thread, since libgomp
// is not instrumented.
#ifndef RALLY_KERNELS_HOST_PARALLEL_H_
#define RALLY_KERNELS_HOST_PARALLEL_H_

#include <cstdint>

#include <omp.h>

#ifdef __SANITIZE_THREAD__
#define RALLY_HOST_OPENMP 0
#else
#define RALLY_HOST_OPENMP 1
#endif

namespace rally {

// Of loops that the calling thread starts.
inline void SetParallelThreads(int threads) {
  omp_set_num_threads(RALLY_HOST_OPENMP ? threads : 1);
}

inline int ParallelThreads() { return omp_get_max_threads(); }

// Starting a parallel loop costs some microseconds: what is worth less runs on the caller.
inline constexpr int64_t kParallelElements = 16384;

// body(i) for i in [0, n). `elements`: size of the whole work, about one operation each.
template <typename Body>
void ParallelFor(int64_t n, int64_t elements, const Body& body) {
#if RALLY_HOST_OPENMP
  if (n > 1 && elements >= kParallelElements && omp_get_max_threads() > 1) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i) body(i);
}

// The same for bodies that differ in cost: threads take the next i when they are free.
template <typename Body>
void ParallelForDynamic(int64_t n, int64_t elements, const Body& body) {
#if RALLY_HOST_OPENMP
  if (n > 1 && elements >= kParallelElements && omp_get_max_threads() > 1) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_PARALLEL_H_
