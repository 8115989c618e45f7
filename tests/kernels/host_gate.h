// Holds a stream until the test opens it.
#ifndef RALLY_TESTS_KERNELS_HOST_GATE_H_
#define RALLY_TESTS_KERNELS_HOST_GATE_H_

#include <condition_variable>
#include <mutex>

#include "kernels/device/host_stream.h"

namespace rally {

class HostGate {
 public:
  ~HostGate() { Open(); }

  // On a stream of a host device.
  void Enqueue(Stream& stream) { EnqueueOnHost<&HostGate::Run>(stream, Args{this}); }
  // Blocks the calling thread until the gate is open.
  void Pass() {
    std::unique_lock lock(mu_);
    opened_.wait(lock, [&] { return open_; });
  }
  void Open() {
    std::lock_guard lock(mu_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  struct Args {
    HostGate* gate;
  };
  static void Run(const Args& args) { args.gate->Pass(); }

  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_HOST_GATE_H_
