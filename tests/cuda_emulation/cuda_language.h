// The words of CUDA C++ and its built-in variables, for a C++ compiler that knows neither.
#ifndef RALLY_TESTS_CUDA_EMULATION_CUDA_LANGUAGE_H_
#define RALLY_TESTS_CUDA_EMULATION_CUDA_LANGUAGE_H_

#include <cuda_runtime.h>

#include <source_location>

namespace rally::emulation {

// A __shared__ variable is static, which serves one block at a time: kernels whose blocks run
// concurrently have none. Stands before each of their declarations.
void NoteSharedVariable(std::source_location where = std::source_location::current());

}  // namespace rally::emulation

#undef __shared__
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __launch_bounds__
#undef __grid_constant__
#define __shared__                        \
  ::rally::emulation::NoteSharedVariable(); \
  static
#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __grid_constant__

// Those of the thread that runs. Fibers share the host's thread, so these are plain variables.
inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
inline constexpr int warpSize = 32;

#endif  // RALLY_TESTS_CUDA_EMULATION_CUDA_LANGUAGE_H_
