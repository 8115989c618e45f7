#include "kernels/device/cuda_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/op_table.h"
#include "kernels/device/cuda_clock.h"
#include "kernels/device/cuda_context.h"
#include "kernels/device/cuda_memory.h"
#include "kernels/device/cuda_queue.h"

namespace rally {
namespace {

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, std::unique_ptr<CudaClock> clock)
      : context_(std::move(context)), clock_(std::move(clock)) {}
  // Buffers may outlive the device, the work on them may not.
  ~CudaDevice() override {
    context_->MakeCurrent();
    for (cudaStream_t stream : context_->streams) static_cast<void>(cudaStreamSynchronize(stream));
  }

  std::string name() const override { return context_->name; }
  const OpTable& ops() const override { return CudaOps(); }
  bool wants_tight_shapes() const override { return true; }
  DeviceMemory memory() const override {
    context_->MakeCurrent();
    return CudaMemory();
  }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override {
    context_->MakeCurrent();
    CudaStreamOwner stream;
    const cudaError_t error = MakeCudaStream(&stream);
    if (error != cudaSuccess) return CudaStatus(error, context_->name, "making a stream");
    return std::make_unique<CudaQueue>(context_, std::move(stream));
  }
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override { return MakeEvent(false); }
  absl::StatusOr<std::unique_ptr<Event>> NewTimedEvent() override { return MakeEvent(true); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes) override {
    context_->MakeCurrent();
    return space == Space::kDevice ? NewCudaBuffer(context_, bytes)
                                   : NewPinnedBuffer(context_, bytes);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) override {
    context_->MakeCurrent();
    return NewCudaReservation(context_, bytes, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 const std::function<void()>& record) override {
    return static_cast<CudaQueue&>(stream).Capture(record);
  }
  absl::Status Sync(Stream& stream) override {
    CudaStream& queue = OnCuda(stream);
    queue.Check(cudaStreamSynchronize(queue.handle()), "waiting for a stream");
    return status();
  }
  absl::Status status() const override { return context_->fault.status(); }
  int64_t ClockNanos() const override {
    context_->MakeCurrent();
    return clock_->Nanos();
  }
  int64_t clock_tick_ns() const override { return clock_->tick_ns(); }

 private:
  absl::StatusOr<std::unique_ptr<Event>> MakeEvent(bool timed) {
    context_->MakeCurrent();
    CudaEventOwner event;
    const cudaError_t error = MakeCudaEvent(&event, timed);
    if (error != cudaSuccess) return CudaStatus(error, context_->name, "making an event");
    return std::make_unique<CudaEvent>(context_, std::move(event));
  }

  const std::shared_ptr<CudaContext> context_;
  const std::unique_ptr<CudaClock> clock_;
};

// The places where a GPU can be missing: its driver, its device files, a container's permission.
std::string LookedFor() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  int files = 0;
  while (access(absl::StrCat("/dev/nvidia", files).c_str(), F_OK) == 0) ++files;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return absl::StrCat("looked for the driver library libcuda.so.1 (",
                      driver != nullptr ? "there" : "not there", "), /dev/nvidia0 and on (", files,
                      " there), CUDA_VISIBLE_DEVICES (",
                      visible != nullptr ? absl::StrCat("\"", visible, "\"") : "not set", ")");
}

std::string DriverText() {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  const auto text = [](int version) {
    return absl::StrCat(version / 1000, ".", version % 1000 / 10);
  };
  return absl::StrCat(driver == 0 ? std::string("no driver") : "a driver for CUDA " + text(driver),
                      ", this program is built with CUDA ", text(runtime));
}

absl::Status Open(const CudaDeviceOptions& options, CudaContext* context) {
  context->ordinal = options.ordinal;
  context->name = absl::StrCat("cuda:", options.ordinal);
  const absl::StatusOr<const CublasLt*> lt = LoadCublasLt();
  if (!lt.ok()) return lt.status();
  context->lt = *lt;
  const auto check = [&](cudaError_t error, const char* what) {
    return CudaStatus(error, context->name, what);
  };
  absl::Status status = check(cudaSetDevice(options.ordinal), "opening the device");
  status.Update(check(cudaDeviceGetAttribute(&context->multiprocessors,
                                             cudaDevAttrMultiProcessorCount, options.ordinal),
                      "reading its properties"));
  if (status.ok()) status = check(MakeCudaStream(&context->setup), "making a stream");
  if (!status.ok()) return status;
  const DeviceMemory memory = CudaMemory();
  const std::string scratch =
      absl::StrCat("scratch memory of ", options.scratch_bytes, " bytes where ", memory.free_bytes,
                   " of ", memory.total_bytes, " are free");
  status = check(cudaMalloc(&context->scratch.data, options.scratch_bytes), scratch.c_str());
  if (!status.ok()) return status;
  context->scratch.bytes = options.scratch_bytes;
  status =
      check(cudaMemsetAsync(context->scratch.data, 0, options.scratch_bytes, context->setup.get()),
            "scratch memory");
  if (const cublasStatus_t made = context->lt->Create(&context->cublas);
      status.ok() && made != CUBLAS_STATUS_SUCCESS) {
    status = absl::InternalError(
        absl::StrCat(context->name, ": cublasLtCreate: ", context->lt->GetStatusString(made)));
  }
  return status;
}

}  // namespace

int CudaDeviceCount(std::string* why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  *why_none = absl::StrCat(
      "no GPU was found: ", error == cudaSuccess ? "the driver counts none" : CudaErrorText(error),
      "; ", DriverText(), "; ", LookedFor());
  return 0;
}

absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(const CudaDeviceOptions& options) {
  std::string why_none;
  const int count = CudaDeviceCount(&why_none);
  if (count == 0) return absl::UnavailableError(why_none);
  if (options.ordinal < 0 || options.ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("cuda:", options.ordinal,
                                               " does not exist: this machine has ", count,
                                               " GPU(s), the first is cuda:0"));
  }
  auto context = std::make_shared<CudaContext>();
  if (absl::Status status = Open(options, context.get()); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<CudaClock>> clock = CudaClock::Start(context->name);
  if (!clock.ok()) return clock.status();
  return std::make_unique<CudaDevice>(std::move(context), *std::move(clock));
}

}  // namespace rally
