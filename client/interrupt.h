// Ctrl-C while a call runs: cancels the call instead of killing the program.
#ifndef RALLY_CLIENT_INTERRUPT_H_
#define RALLY_CLIENT_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

namespace rally {

// Create it before the first gRPC object: threads inherit the blocked signal from here.
class InterruptWatch {
 public:
  InterruptWatch();
  // The signal has its usual effect on this thread again.
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Calls `on_interrupt` from a thread of its own for the first Ctrl-C; a second one ends the
  // program at once.
  void Start(std::function<void()> on_interrupt);
  // No call of `on_interrupt` comes after this.
  void Stop();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rally

#endif  // RALLY_CLIENT_INTERRUPT_H_
