#include <atomic>
#include <limits>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/device/cuda_clock.h"
#include "kernels/device/cuda_error.h"
#include "kernels/host/host_clock.h"

namespace rally {
namespace {

constexpr int32_t kRounds = 16;
constexpr int64_t kPatienceNanos = 1'000'000'000;
constexpr int64_t kRefreshPatienceNanos = 1'000'000;
constexpr int64_t kRefreshEveryNanos = 1'000'000'000;
constexpr int64_t kGoodRoundTripNanos = 20'000;  // longer: the host thread lost its core

// Answers rounds first, first + 1, ..., one thread. Ends early if the host gives up or is gone.
__global__ void AnswerClock(volatile CudaClockCells* cells, int32_t first) {
  const int64_t begin = GlobalNanos();
  for (int32_t round = first; round < first + kRounds; ++round) {
    while (cells->question != round) {
      if (cells->question == 0 || GlobalNanos() - begin > kPatienceNanos) return;
    }
    cells->device_ns = GlobalNanos();
    __threadfence_system();
    cells->answer = round;
  }
}

// The least change between two readings, of some changes. One thread.
__global__ void MeasureTick(CudaClockCells* cells) {
  constexpr int kChanges = 16;
  int64_t least = kPatienceNanos;
  int64_t last = GlobalNanos();
  for (int change = 0; change < kChanges;) {
    const int64_t now = GlobalNanos();
    if (now == last) continue;
    least = min(least, now - last);
    last = now;
    ++change;
  }
  cells->tick_ns = least;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaClock>> CudaClock::Start(absl::string_view where) {
  auto clock = std::make_unique<CudaClock>();
  void* memory = nullptr;
  absl::Status status = CudaStatus(cudaHostAlloc(&memory, sizeof(CudaClockCells), 0), where,
                                   "pinned memory for the clock");
  if (!status.ok()) return status;
  clock->cells_.reset(new (memory) CudaClockCells);
  status = CudaStatus(MakeCudaStream(&clock->stream_), where, "making a stream");
  if (status.ok()) {
    MeasureTick<<<1, 1, 0, clock->stream_.get()>>>(clock->cells_.get());
    status = CudaStatus(clock->Launch(), where, "the first kernel");
  }
  if (!status.ok()) return status;
  const bool answered = clock->Ask(kPatienceNanos, &clock->sample_);
  status = CudaStatus(cudaStreamSynchronize(clock->stream_.get()), where, "the first kernel");
  if (!status.ok()) return status;
  if (!answered) {
    return absl::UnavailableError(absl::StrCat(where, ": the device clock does not answer"));
  }
  clock->tick_ns_ = clock->cells_->tick_ns;
  clock->next_refresh_ns_ = clock->sample_.host_ns + kRefreshEveryNanos;
  return clock;
}

// A kernel that was given up reads the cells until it ends.
CudaClock::~CudaClock() {
  if (stream_.get() != nullptr) static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

int64_t CudaClock::Nanos() {
  if (HostClockNanos() >= next_refresh_ns_) Refresh();
  const int64_t now = HostClockNanos();
  const auto drifted = static_cast<int64_t>(drift_ * static_cast<double>(now - sample_.host_ns));
  return now + sample_.offset_ns + drifted;
}

// Keeps the mapping as it is where there is no good answer now, and tries again later.
void CudaClock::Refresh() {
  next_refresh_ns_ = HostClockNanos() + kRefreshEveryNanos;
  const bool idle = cudaStreamQuery(stream_.get()) == cudaSuccess;
  const bool launched = idle && Launch() == cudaSuccess;
  if (!launched) {
    // A step's errors are read where it ends; here they only mean that there is no answer.
    static_cast<void>(cudaGetLastError());
    return;
  }
  Sample sample;
  if (!Ask(kRefreshPatienceNanos, &sample) || sample.round_trip_ns > kGoodRoundTripNanos) return;
  if (sample_.round_trip_ns <= kGoodRoundTripNanos) {
    drift_ = static_cast<double>(sample.offset_ns - sample_.offset_ns) /
             static_cast<double>(sample.host_ns - sample_.host_ns);
  }
  sample_ = sample;
}

// The first question is asked before the launch, so a kernel that starts late is not left waiting.
cudaError_t CudaClock::Launch() {
  std::atomic_ref<int32_t>(cells_->question).store(last_round_ + 1, std::memory_order_release);
  AnswerClock<<<1, 1, 0, stream_.get()>>>(cells_.get(), last_round_ + 1);
  return cudaGetLastError();
}

// The round with the shortest round trip; false if one was not answered in time. The first does not
// count: it may have been answered since the launch.
bool CudaClock::Ask(int64_t patience_ns, Sample* best) {
  std::atomic_ref<int32_t> question(cells_->question), answer(cells_->answer);
  const int64_t deadline = HostClockNanos() + patience_ns;
  const int32_t first = last_round_ + 1;
  last_round_ += kRounds;
  best->round_trip_ns = std::numeric_limits<int64_t>::max();
  for (int32_t round = first; round <= last_round_; ++round) {
    const int64_t asked = HostClockNanos();
    question.store(round, std::memory_order_release);
    while (answer.load(std::memory_order_acquire) != round) {
      if (HostClockNanos() > deadline) {
        question.store(0, std::memory_order_release);
        return false;
      }
    }
    const int64_t round_trip = HostClockNanos() - asked;
    if (round == first || round_trip >= best->round_trip_ns) continue;
    const int64_t middle = asked + round_trip / 2;
    *best = {middle, cells_->device_ns - middle, round_trip};
  }
  return true;
}

}  // namespace rally
