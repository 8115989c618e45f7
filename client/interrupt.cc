#include "client/interrupt.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "client/exit_codes.h"

namespace rally {
namespace {

constexpr timespec kPoll = {0, 50'000'000};

sigset_t InterruptSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  const sigset_t set = InterruptSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

InterruptWatch::~InterruptWatch() {
  Stop();
  const sigset_t set = InterruptSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void InterruptWatch::Start(std::function<void()> on_interrupt) {
  thread_ = std::thread([this, on_interrupt = std::move(on_interrupt)] {
    const sigset_t set = InterruptSet();
    bool interrupted = false;
    while (!stop_.load()) {
      if (sigtimedwait(&set, nullptr, &kPoll) != SIGINT) continue;
      if (std::exchange(interrupted, true)) std::_Exit(kExitCancelled);
      on_interrupt();
    }
  });
}

void InterruptWatch::Stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

}  // namespace rally
