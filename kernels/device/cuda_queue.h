// Streams, events and graphs of a CUDA device.
#ifndef RALLY_KERNELS_DEVICE_CUDA_QUEUE_H_
#define RALLY_KERNELS_DEVICE_CUDA_QUEUE_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/device/cuda_context.h"
#include "kernels/device/cuda_handles.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/device/device.h"

namespace rally {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<CudaContext> context, CudaEventOwner event)
      : context_(std::move(context)), event_(std::move(event)) {}

  cudaEvent_t handle() const { return event_.get(); }
  // A failed device runs nothing any more, so its events are done.
  bool IsDone() const override;
  absl::Status SyncUntil(absl::Time deadline) const override;
  int64_t NanosSince(const Event& earlier) const override;

 private:
  const std::shared_ptr<CudaContext> context_;
  const CudaEventOwner event_;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(std::shared_ptr<CudaContext> context, CudaGraphExecOwner exec)
      : context_(std::move(context)), exec_(std::move(exec)) {}

  cudaGraphExec_t handle() const { return exec_.get(); }

 private:
  const std::shared_ptr<CudaContext> context_;
  const CudaGraphExecOwner exec_;
};

class CudaQueue final : public CudaStream {
 public:
  CudaQueue(std::shared_ptr<CudaContext> context, CudaStreamOwner stream);
  ~CudaQueue() override;

  // Makes the device current, since the caller is about to use the stream.
  cudaStream_t handle() const override;
  void Check(cudaError_t error, const char* what) override;
  void Fail(absl::Status error) override { context_->fault.Set(std::move(error)); }
  CudaScratch& scratch() override { return context_->scratch; }
  const CublasLt& cublas_lt() override { return *context_->lt; }
  cublasLtHandle_t cublas() override { return context_->cublas; }
  int multiprocessors() const override { return context_->multiprocessors; }

  void Copy(void* dst, const void* src, size_t bytes) override;
  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Launch(Graph& graph) override;

  absl::StatusOr<std::unique_ptr<Graph>> Capture(const std::function<void()>& record);

 private:
  absl::StatusOr<CudaGraphOwner> RecordGraph(const std::function<void()>& record);
  bool RefuseInCapture();

  const std::shared_ptr<CudaContext> context_;
  const CudaStreamOwner stream_;
  bool capturing_ = false;
  bool capture_refused_ = false;
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_CUDA_QUEUE_H_
