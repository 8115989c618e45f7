#include "tests/cuda_emulation/failure.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {
namespace {

std::string FileName(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1));
}

// "kernel matmul, block (3, 0, 0), thread 17", as far as that is known.
std::string Place() {
  const Wave& wave = Wave::Current();
  const Thread* thread = wave.thread();
  if (thread == nullptr) return "outside of a kernel";
  const uint3 block = thread->warp->block->index;
  return absl::StrFormat("kernel %s, block (%d, %d, %d), thread %d", wave.launch().op, block.x,
                         block.y, block.z, thread->index.x);
}

// Runs on a stack of its own, since the cause may be the end of the thread's.
void OnInvalidAccess(int signal_number, siginfo_t* info, void*) {
  std::fprintf(stderr, "CUDA emulation: %s: invalid access to address %p\n", Place().c_str(),
               info->si_addr);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

void Fail(const std::string& what, std::source_location where) {
  std::fflush(stdout);
  std::fprintf(stderr, "CUDA emulation: %s: %s (%s:%u)\n", Place().c_str(), what.c_str(),
               FileName(where).c_str(), static_cast<unsigned>(where.line()));
  std::abort();
}

void ReportInvalidAccesses() {
  static const bool installed = [] {
    static std::byte signal_stack[size_t{64} << 10];
    const stack_t stack = {.ss_sp = signal_stack, .ss_flags = 0, .ss_size = sizeof signal_stack};
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = &OnInvalidAccess;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGSEGV, &action, nullptr) == 0 && sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace rally::emulation
