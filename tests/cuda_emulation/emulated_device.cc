// The CUDA device of the emulation, in place of kernels/device/cuda_device.cc. Work runs when it is
// enqueued, so streams have nothing to wait for and events are done once they are recorded.
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/op_table.h"
#include "kernels/device/cuda_device.h"
#include "kernels/host/host_clock.h"
#include "tests/cuda_emulation/device_memory.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/kernel_launch.h"

namespace rally::emulation {
namespace {

// What the streams share with their device.
struct Context {
  std::unique_ptr<Buffer> scratch_memory;
  CudaScratch scratch;
  std::mutex mu;
  absl::Status error;

  void Fail(absl::Status status) {
    const std::lock_guard lock(mu);
    if (error.ok()) error = std::move(status);
  }
};

using WorkList = std::vector<std::function<void()>>;

class DoneEvent final : public Event {
 public:
  bool IsDone() const override { return true; }
  absl::Status SyncUntil(absl::Time) const override { return absl::OkStatus(); }
};

class RecordedGraph final : public Graph {
 public:
  explicit RecordedGraph(WorkList list) : work(std::move(list)) {}
  const WorkList work;
};

class ImmediateStream final : public EmulatedStream {
 public:
  explicit ImmediateStream(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  cudaStream_t handle() const override { return nullptr; }
  void Check(cudaError_t error, const char* what) override {
    if (error != cudaSuccess) {
      Fail(absl::InternalError(absl::StrCat("cuda:0: ", what, ": error ", int{error})));
    }
  }
  void Fail(absl::Status error) override { context_->Fail(std::move(error)); }
  CudaScratch& scratch() override { return context_->scratch; }
  const CublasLt& cublas_lt() override { emulation::Fail("there is no cuBLASLt here"); }
  cublasLtHandle_t cublas() override { emulation::Fail("there is no cuBLASLt here"); }
  int multiprocessors() const override { return kMultiprocessors; }

  void Enqueue(std::function<void()> work) override {
    if (captured_ != nullptr) {
      captured_->push_back(std::move(work));
    } else {
      work();
    }
  }
  void Copy(void* dst, const void* src, size_t bytes) override {
    if (bytes == 0) return;
    Enqueue([=] { std::memmove(dst, src, bytes); });
  }
  void Record(Event&) override { capture_refused_ |= captured_ != nullptr; }
  void Wait(const Event&) override { capture_refused_ |= captured_ != nullptr; }
  void Launch(Graph& graph) override {
    capture_refused_ |= captured_ != nullptr;
    if (captured_ != nullptr) return;
    for (const auto& work : static_cast<RecordedGraph&>(graph).work) work();
  }

  absl::StatusOr<std::unique_ptr<Graph>> Capture(const std::function<void()>& record) {
    WorkList work;
    captured_ = &work;
    capture_refused_ = false;
    record();
    captured_ = nullptr;
    if (capture_refused_) {
      return absl::FailedPreconditionError("only ops and copies can be captured into a graph");
    }
    return std::make_unique<RecordedGraph>(std::move(work));
  }

 private:
  const std::shared_ptr<Context> context_;
  WorkList* captured_ = nullptr;
  bool capture_refused_ = false;
};

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  std::string name() const override { return "cuda:0"; }
  const OpTable& ops() const override { return CudaOps(); }
  bool wants_tight_shapes() const override { return true; }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    return std::make_unique<ImmediateStream>(context_);
  }
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override {
    return std::make_unique<DoneEvent>();
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space, size_t bytes) override {
    return NewDeviceBuffer(bytes);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) override {
    return NewReservation(bytes, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 const std::function<void()>& record) override {
    return static_cast<ImmediateStream&>(stream).Capture(record);
  }
  absl::Status Sync(Stream&) override { return status(); }
  absl::Status status() const override {
    const std::lock_guard lock(context_->mu);
    return context_->error;
  }
  int64_t ClockNanos() const override { return HostClockNanos(); }

 private:
  const std::shared_ptr<Context> context_;
};

}  // namespace
}  // namespace rally::emulation

namespace rally {

int CudaDeviceCount(std::string*) { return 1; }

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions& options) {
  if (options.ordinal != 0) {
    return absl::UnavailableError(
        absl::StrCat("cuda:", options.ordinal, " does not exist: the emulation has cuda:0"));
  }
  auto context = std::make_shared<emulation::Context>();
  auto scratch = emulation::NewDeviceBuffer(options.scratch_bytes);
  if (!scratch.ok()) return scratch.status();
  context->scratch_memory = *std::move(scratch);
  context->scratch = {context->scratch_memory->data(), options.scratch_bytes};
  return std::make_unique<emulation::EmulatedDevice>(std::move(context));
}

}  // namespace rally
