#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace rally::emulation {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kStackBytes = size_t{128} << 10;  // with the page that faults
constexpr size_t kStacksPerChunk = 256;

}  // namespace

#if defined(__x86_64__)

// Saves what a call preserves on this stack, notes where, and continues on the other stack.
extern "C" void rally_emulation_switch(void** saved, void* other);
asm(R"(
.text
.globl rally_emulation_switch
.type rally_emulation_switch, @function
rally_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rally_emulation_switch, .-rally_emulation_switch
)");

void Fiber::Start(const Stack& stack, void (*body)()) {
  // As if `body` had been called from nowhere: six saved registers, its address, a return address.
  constexpr size_t kWords = 8;
  auto* words = reinterpret_cast<uint64_t*>(stack.begin + stack.bytes) - kWords;
  std::memset(words, 0, kWords * sizeof(uint64_t));
  words[6] = reinterpret_cast<uint64_t>(body);
  own_ = words;
}

void Fiber::Resume() { rally_emulation_switch(&caller_, own_); }
void Fiber::Pause() { rally_emulation_switch(&own_, caller_); }

#else

void Fiber::Start(const Stack& stack, void (*body)()) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack.begin;
  own_.uc_stack.ss_size = stack.bytes;
  own_.uc_link = nullptr;
  makecontext(&own_, body, 0);
}

void Fiber::Resume() { swapcontext(&caller_, &own_); }
void Fiber::Pause() { swapcontext(&own_, &caller_); }

#endif

StackPool::~StackPool() {
  for (std::byte* chunk : chunks_) munmap(chunk, kStackBytes * kStacksPerChunk);
}

Stack StackPool::Get(size_t index) {
  while (index / kStacksPerChunk >= chunks_.size()) {
    void* chunk = mmap(nullptr, kStackBytes * kStacksPerChunk, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk == MAP_FAILED) std::abort();
    chunks_.push_back(static_cast<std::byte*>(chunk));
    for (size_t i = 0; i < kStacksPerChunk; ++i) {
      mprotect(chunks_.back() + i * kStackBytes, kPageBytes, PROT_NONE);
    }
  }
  std::byte* stack = chunks_[index / kStacksPerChunk] + index % kStacksPerChunk * kStackBytes;
  // Tops at the same place of their pages would all compete for the same lines of the cache.
  const size_t offset = index % 32 * 128;
  return {stack + kPageBytes, kStackBytes - kPageBytes - offset};
}

}  // namespace rally::emulation
