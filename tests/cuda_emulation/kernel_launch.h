// A launch of a kernel, and what the GPU would refuse of it.
#ifndef RALLY_TESTS_CUDA_EMULATION_KERNEL_LAUNCH_H_
#define RALLY_TESTS_CUDA_EMULATION_KERNEL_LAUNCH_H_

#include <vector_types.h>

#include <cstddef>
#include <functional>

namespace rally::emulation {

constexpr int kMultiprocessors = 4;

struct KernelLaunch {
  const char* op = "";
  std::function<void()> call;  // the kernel with its arguments, for one thread
  const void* kernel = nullptr;
  dim3 grid;
  unsigned block = 0;
  size_t shared_bytes = 0;
  unsigned cluster_z = 1;
  bool all_resident = false;
};

// Runs the whole grid, blocks in a random order; waits while another host thread runs one. The
// order follows from RALLY_EMULATION_SEED (default 1) and the number of launches so far.
void RunKernel(const KernelLaunch& launch);

// Kernels with more than 48 KB need it.
void AllowKernelSharedBytes(const void* kernel, size_t bytes);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_KERNEL_LAUNCH_H_
