#include "kernels/device/cuda_queue.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/host/host_clock.h"

namespace rally {
namespace {

// Paces a thread that polls: at first without a pause (a query takes about a microsecond), then
// with sleeps of an eighth of the time waited so far, so that a long step costs little of a core
// and the end of a short one is seen at once.
class PollPacer {
 public:
  void Pause() {
    const int64_t waited = HostClockNanos() - begin_;
    if (waited < kSpinNanos) return;
    if (!sleeps_) {
      // The kernel ends a thread's sleeps up to 50 us late unless the thread asks for less.
      prctl(PR_SET_TIMERSLACK, kTimerSlackNanos, 0, 0, 0);
      sleeps_ = true;
    }
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min<int64_t>(waited / 8, kMaxSleepNanos)));
  }

 private:
  static constexpr int64_t kSpinNanos = 20'000;
  static constexpr int64_t kMaxSleepNanos = 50'000;
  static constexpr unsigned long kTimerSlackNanos = 1'000;
  const int64_t begin_ = HostClockNanos();
  bool sleeps_ = false;
};

}  // namespace

bool CudaEvent::IsDone() const {
  context_->MakeCurrent();
  const cudaError_t error = cudaEventQuery(event_.get());
  if (error == cudaSuccess) return true;
  // The runtime would hand this result to the next cudaGetLastError of the thread.
  static_cast<void>(cudaGetLastError());
  if (error == cudaErrorNotReady) return false;
  context_->fault.Set(CudaStatus(error, context_->name, "polling an event"));
  return true;
}

absl::Status CudaEvent::SyncUntil(absl::Time deadline) const {
  for (PollPacer pacer; !IsDone(); pacer.Pause()) {
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(context_->name, ": work has not ended before its deadline"));
    }
  }
  return absl::OkStatus();
}

int64_t CudaEvent::NanosSince(const Event& earlier) const {
  context_->MakeCurrent();
  const auto& from = static_cast<const CudaEvent&>(earlier);
  float ms = 0;
  const cudaError_t error = cudaEventElapsedTime(&ms, from.handle(), handle());
  if (error == cudaSuccess) return static_cast<int64_t>(double{ms} * 1e6);
  context_->fault.Set(CudaStatus(error, context_->name, "timing an event"));
  return 0;
}

CudaQueue::CudaQueue(std::shared_ptr<CudaContext> context, CudaStreamOwner stream)
    : context_(std::move(context)), stream_(std::move(stream)) {
  context_->streams.push_back(stream_.get());
}

CudaQueue::~CudaQueue() {
  Check(cudaStreamSynchronize(handle()), "ending a stream");
  std::erase(context_->streams, stream_.get());
}

cudaStream_t CudaQueue::handle() const {
  context_->MakeCurrent();
  return stream_.get();
}

void CudaQueue::Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) context_->fault.Set(CudaStatus(error, context_->name, what));
}

void CudaQueue::Copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, handle()), "copying");
}

void CudaQueue::Record(Event& event) {
  if (RefuseInCapture()) return;
  Check(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), handle()), "recording an event");
}

void CudaQueue::Wait(const Event& event) {
  if (RefuseInCapture()) return;
  Check(cudaStreamWaitEvent(handle(), static_cast<const CudaEvent&>(event).handle(), 0),
        "waiting for an event");
}

void CudaQueue::Launch(Graph& graph) {
  if (RefuseInCapture()) return;
  Check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).handle(), handle()), "launching a graph");
}

absl::StatusOr<std::unique_ptr<Graph>> CudaQueue::Capture(const std::function<void()>& record) {
  const absl::StatusOr<CudaGraphOwner> graph = RecordGraph(record);
  if (!graph.ok()) return graph.status();
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaGraphInstantiate(&exec, graph->get(), 0);
  CudaGraphExecOwner owner(exec);
  if (error == cudaSuccess) error = cudaGraphUpload(exec, handle());
  if (error != cudaSuccess) return CudaStatus(error, context_->name, "making a graph");
  return std::make_unique<CudaGraph>(context_, std::move(owner));
}

// Relaxed mode: other ranks, and the loading of kernels, go on while this thread captures.
absl::StatusOr<CudaGraphOwner> CudaQueue::RecordGraph(const std::function<void()>& record) {
  const cudaError_t begun = cudaStreamBeginCapture(handle(), cudaStreamCaptureModeRelaxed);
  if (begun != cudaSuccess) return CudaStatus(begun, context_->name, "beginning a capture");
  capturing_ = true;
  capture_refused_ = false;
  record();
  capturing_ = false;
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(handle(), &captured);
  CudaGraphOwner graph(captured);
  if (capture_refused_) {
    return absl::FailedPreconditionError("only ops and copies can be captured into a graph");
  }
  if (!context_->fault.ok()) return context_->fault.status();
  if (ended != cudaSuccess) return CudaStatus(ended, context_->name, "capturing a graph");
  return graph;
}

bool CudaQueue::RefuseInCapture() {
  capture_refused_ |= capturing_;
  return capturing_;
}

}  // namespace rally
