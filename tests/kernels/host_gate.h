// Holds a host stream until the test opens it.
#ifndef RALLY_TESTS_KERNELS_HOST_GATE_H_
#define RALLY_TESTS_KERNELS_HOST_GATE_H_

#include <condition_variable>
#include <mutex>

#include "kernels/device/host_stream.h"

namespace rally {

class HostGate {
 public:
  ~HostGate() { Open(); }

  void Enqueue(Stream& stream) { EnqueueOnHost<&HostGate::Pass>(stream, Args{this}); }
  void Open() {
    std::lock_guard lock(mu_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  struct Args {
    HostGate* gate;
  };
  static void Pass(const Args& args) {
    std::unique_lock lock(args.gate->mu_);
    args.gate->opened_.wait(lock, [&] { return args.gate->open_; });
  }

  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace rally

#endif  // RALLY_TESTS_KERNELS_HOST_GATE_H_
