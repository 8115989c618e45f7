// Stands for kernels/cuda/launch.cuh in the emulation: the same launches, run on the CPU.
#ifndef RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_LAUNCH_CUH_
#define RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <tuple>

#include "kernels/device/cuda_stream.h"
#include "tests/cuda_emulation/cuda_language.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/kernel_launch.h"

namespace rally {

struct LaunchShape {
  dim3 grid;
  int block = 0;
  size_t shared_bytes = 0;
  int cluster_z = 1;
  bool all_resident = false;
};

template <typename... Params, typename... Args>
void LaunchKernel(Stream& stream, const char* op, void (*kernel)(Params...),
                  const LaunchShape& shape, const Args&... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  const auto params = std::tuple<Params...>(Params(args)...);
  const emulation::KernelLaunch launch = {
      .op = op,
      .call = [kernel, params] { std::apply(kernel, params); },
      .kernel = reinterpret_cast<const void*>(kernel),
      .grid = shape.grid,
      .block = static_cast<unsigned>(shape.block),
      .shared_bytes = shape.shared_bytes,
      .cluster_z = static_cast<unsigned>(shape.cluster_z),
      .all_resident = shape.all_resident,
  };
  emulation::Emulated(stream).Enqueue([launch] { emulation::RunKernel(launch); });
}

template <typename... Params>
void AllowSharedBytes(Stream&, const char*, void (*kernel)(Params...), size_t bytes) {
  emulation::AllowKernelSharedBytes(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace rally

#endif  // RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_LAUNCH_CUH_
