// How the emulation's launches and products reach their stream.
#ifndef RALLY_TESTS_CUDA_EMULATION_EMULATED_STREAM_H_
#define RALLY_TESTS_CUDA_EMULATION_EMULATED_STREAM_H_

#include <functional>

#include "kernels/device/cuda_stream.h"

namespace rally::emulation {

class EmulatedStream : public CudaStream {
 public:
  // Runs `work` at once, or records it while the stream captures.
  virtual void Enqueue(std::function<void()> work) = 0;
};

// Every stream of a program with the emulation is one of its own.
inline EmulatedStream& Emulated(Stream& stream) { return static_cast<EmulatedStream&>(stream); }

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_EMULATED_STREAM_H_
