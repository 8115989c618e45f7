// Launches a kernel on a stream of the device interface.
//
// Every kernel here is launched so that it may overlap the end of the one before it (programmatic
// dependent launch), which saves about a microsecond a kernel. That is safe by two rules:
//   - it calls WaitForInputs() in every thread that reads what an earlier kernel of the step wrote,
//     or writes what an earlier one reads, before it does so; and in at least one thread of every
//     block, since later kernels rely on its end meaning that all earlier ones have ended;
//   - before that it reads parameters alone: weights, and the KV of positions before this step.
// A kernel calls LetNextStart() early; the next one's wait is for the end of all blocks anyway.
#ifndef RALLY_KERNELS_CUDA_LAUNCH_CUH_
#define RALLY_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include "kernels/device/cuda_stream.h"

namespace rally {

struct LaunchShape {
  dim3 grid;
  int block = 0;
  size_t shared_bytes = 0;    // dynamic
  int cluster_z = 1;          // blocks of a cluster, along grid.z, which it divides
  bool all_resident = false;  // all blocks run at once, so that they may wait for each other
};

// Notes the first error; nothing waits. An empty grid is no launch.
template <typename... Params, typename... Args>
void LaunchKernel(Stream& stream, const char* op, void (*kernel)(Params...),
                  const LaunchShape& shape, const Args&... args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  CudaStream& cuda = OnCuda(stream);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  // A kernel whose blocks wait for each other starts when all of them can: not before the one
  // ahead of it has left.
  attributes[count].id = shape.all_resident ? cudaLaunchAttributeCooperative
                                            : cudaLaunchAttributeProgrammaticStreamSerialization;
  if (shape.all_resident) {
    attributes[count++].val.cooperative = 1;
  } else {
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster_z > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {1, 1, static_cast<unsigned>(shape.cluster_z)};
    ++count;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = static_cast<unsigned>(shape.block);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = cuda.handle();
  config.attrs = attributes;
  config.numAttrs = count;
  cuda.Check(cudaLaunchKernelEx(&config, kernel, Params(args)...), op);
}

// Lets a kernel use more than 48 KB of dynamic shared memory. Once a device and kernel; cheap.
template <typename... Params>
void AllowSharedBytes(Stream& stream, const char* op, void (*kernel)(Params...), size_t bytes) {
  OnCuda(stream).Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)),
                       op);
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_LAUNCH_CUH_
