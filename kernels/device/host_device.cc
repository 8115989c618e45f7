#include "kernels/device/host_device.h"

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/device/host_memory.h"
#include "kernels/device/host_queue.h"
#include "kernels/host/host_clock.h"
#include "kernels/host/onednn_matmul.h"
#include "kernels/host/op_table.h"

namespace rally {
namespace {

struct CopyArgs {
  void* dst;
  const void* src;
  size_t bytes;
};

void RunCopy(const CopyArgs& a) { std::memcpy(a.dst, a.src, a.bytes); }

class HostEvent final : public Event {
 public:
  explicit HostEvent(std::shared_ptr<HostQueues> queues) : queues_(std::move(queues)) {}

  bool IsDone() const override { return queues_->HasPassed(point()); }
  absl::Status SyncUntil(absl::Time deadline) const override {
    return queues_->SyncUntil(point(), deadline);
  }

  HostPoint point() const {
    std::lock_guard lock(mu_);
    return point_;
  }
  void set_point(HostPoint point) {
    std::lock_guard lock(mu_);
    point_ = std::move(point);
  }

 private:
  const std::shared_ptr<HostQueues> queues_;
  mutable std::mutex mu_;
  HostPoint point_;
};

class HostGraph final : public Graph {
 public:
  explicit HostGraph(HostOpList list) : ops(std::make_shared<const HostOpList>(std::move(list))) {}
  const std::shared_ptr<const HostOpList> ops;
};

class QueueStream final : public HostStream {
 public:
  explicit QueueStream(std::shared_ptr<HostQueues> queues)
      : queues_(std::move(queues)), queue_(queues_->Open()) {}
  ~QueueStream() override { queues_->Close(queue_); }

  void Enqueue(const HostOp& op) override {
    if (capture_ != nullptr) {
      capture_->push_back(op);
    } else {
      queues_->Enqueue(*queue_, {.kind = HostEntry::Kind::kOp, .op = op});
    }
  }
  void Fail(absl::Status error) override { queues_->Fail(std::move(error)); }
  void Copy(void* dst, const void* src, size_t bytes) override {
    Enqueue(HostOp::Make<&RunCopy>(CopyArgs{dst, src, bytes}));
  }
  void Record(Event& event) override {
    if (RefuseInCapture()) return;
    static_cast<HostEvent&>(event).set_point(queues_->Now(queue_));
  }
  void Wait(const Event& event) override {
    if (RefuseInCapture()) return;
    queues_->Enqueue(*queue_, {.kind = HostEntry::Kind::kWait,
                               .point = static_cast<const HostEvent&>(event).point()});
  }
  void Launch(Graph& graph) override {
    if (RefuseInCapture()) return;
    queues_->Enqueue(
        *queue_, {.kind = HostEntry::Kind::kGraph, .graph = static_cast<HostGraph&>(graph).ops});
  }

  absl::StatusOr<HostOpList> Capture(const std::function<void()>& record) {
    HostOpList ops;
    capture_ = &ops;
    capture_refused_ = false;
    record();
    capture_ = nullptr;
    if (capture_refused_) {
      return absl::FailedPreconditionError("only ops and copies can be captured into a graph");
    }
    return ops;
  }
  absl::Status Drain() { return queues_->SyncUntil(queues_->Now(queue_), absl::InfiniteFuture()); }

 private:
  bool RefuseInCapture() {
    capture_refused_ |= capture_ != nullptr;
    return capture_ != nullptr;
  }

  const std::shared_ptr<HostQueues> queues_;
  const std::shared_ptr<HostQueue> queue_;
  HostOpList* capture_ = nullptr;
  bool capture_refused_ = false;
};

class HostDevice final : public Device {
 public:
  HostDevice(std::string name, int threads, bool worker_per_stream)
      : name_(std::move(name)),
        queues_(std::make_shared<HostQueues>(name_, threads, worker_per_stream)),
        plans_(std::make_shared<OneDnnPlans>(threads)) {}
  ~HostDevice() override { queues_->Stop(); }

  std::string name() const override { return name_; }
  const OpTable& ops() const override { return HostOps(); }
  DeviceMemory memory() const override { return HostMemory(); }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    return std::make_unique<QueueStream>(queues_);
  }
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override {
    return std::make_unique<HostEvent>(queues_);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space, size_t bytes) override {
    return NewHostBuffer(name_, bytes, bytes);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) override {
    return NewHostBuffer(name_, bytes, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 const std::function<void()>& record) override {
    absl::StatusOr<HostOpList> ops = static_cast<QueueStream&>(stream).Capture(record);
    if (!ops.ok()) return ops.status();
    return std::make_unique<HostGraph>(*std::move(ops));
  }
  absl::Status Sync(Stream& stream) override {
    absl::Status drained = static_cast<QueueStream&>(stream).Drain();
    return drained.ok() ? status() : drained;
  }
  absl::Status status() const override { return queues_->status(); }
  int64_t ClockNanos() const override { return HostClockNanos(); }

  const std::shared_ptr<OneDnnPlans>& plans() const { return plans_; }

 private:
  const std::string name_;
  const std::shared_ptr<HostQueues> queues_;
  const std::shared_ptr<OneDnnPlans> plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> NewHostDevice(const HostDeviceOptions& options) {
  if (options.threads < 1 || options.ordinal < 0) {
    return absl::InvalidArgumentError(absl::StrCat("host device: ordinal ", options.ordinal,
                                                   " and threads ", options.threads,
                                                   " must be at least 0 and 1"));
  }
  return std::make_unique<HostDevice>(absl::StrCat("host:", options.ordinal),
                                      options.worker_per_stream ? 1 : options.threads,
                                      options.worker_per_stream);
}

std::shared_ptr<OneDnnPlans> HostPlans(Device& device) {
  return static_cast<HostDevice&>(device).plans();
}

}  // namespace rally
