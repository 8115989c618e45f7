// How the host ops reach their stream: an op in a host queue is a plain function and a copy of its
// args, so that enqueueing, recording and replaying it allocate nothing.
#ifndef RALLY_KERNELS_DEVICE_HOST_STREAM_H_
#define RALLY_KERNELS_DEVICE_HOST_STREAM_H_

#include <cstddef>
#include <new>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/device/device.h"

namespace rally {

class HostOp {
 public:
  static constexpr size_t kMaxArgsBytes = 224;

  HostOp() = default;

  // `kRun` is void(const Args&) or absl::Status(const Args&); its error becomes the device's.
  template <auto kRun, typename Args>
  static HostOp Make(const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxArgsBytes);
    HostOp op;
    op.invoke_ = &Invoke<kRun, Args>;
    new (op.args_) Args(args);
    return op;
  }

  absl::Status Run() const { return invoke_(args_); }

 private:
  template <auto kRun, typename Args>
  static absl::Status Invoke(const std::byte* bytes) {
    const Args& args = *std::launder(reinterpret_cast<const Args*>(bytes));
    if constexpr (std::is_void_v<decltype(kRun(args))>) {
      kRun(args);
      return absl::OkStatus();
    } else {
      return kRun(args);
    }
  }

  absl::Status (*invoke_)(const std::byte* args) = nullptr;
  alignas(16) std::byte args_[kMaxArgsBytes];
};

class HostStream : public Stream {
 public:
  virtual void Enqueue(const HostOp& op) = 0;
  // For an op that cannot even be enqueued: the device's error, if it is the first.
  virtual void Fail(absl::Status error) = 0;
};

// Every stream that a host op is given came from a host device.
template <auto kRun, typename Args>
void EnqueueOnHost(Stream& stream, const Args& args) {
  static_cast<HostStream&>(stream).Enqueue(HostOp::Make<kRun>(args));
}

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_HOST_STREAM_H_
