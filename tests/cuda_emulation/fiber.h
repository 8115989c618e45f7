// A fiber: a function with a stack of its own, which runs when it is resumed until it pauses
// itself. On x86-64 a switch takes a few nanoseconds; elsewhere ucontext does it with system calls.
#ifndef RALLY_TESTS_CUDA_EMULATION_FIBER_H_
#define RALLY_TESTS_CUDA_EMULATION_FIBER_H_

#include <cstddef>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace rally::emulation {

struct Stack {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

class Fiber {
 public:
  // `body` starts at the first Resume and never returns: it ends with a Pause.
  void Start(const Stack& stack, void (*body)());
  void Resume();
  // On the fiber itself: goes back to where Resume was called.
  void Pause();

 private:
#if defined(__x86_64__)
  void* own_ = nullptr;  // stack pointers
  void* caller_ = nullptr;
#else
  ucontext_t own_;
  ucontext_t caller_;
#endif
};

// Stacks that are used again and again, each with a page below it that faults.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  Stack Get(size_t index);

 private:
  std::vector<std::byte*> chunks_;
};

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_FIBER_H_
