// Puts steps on the device: the two streams, the rings of pinned records and outcomes, the slot
// tables and the KV pool.
//
// Step i runs on stream i mod 2. Its record is copied into the device half i mod 2 before that
// stream waits for step i-1, so no copy stands between the wait and the step (rule 13); the
// outcome's half is copied out behind it:
//
//   stream i mod 2:   copy record -> half | wait step i-1 | graph | copy half -> outcome | event
//
// Records and outcomes of pinned memory form a ring of steps in flight + 1 (rule 5).
// Engine thread only.
#ifndef RALLY_ENGINE_EXECUTOR_H_
#define RALLY_ENGINE_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/graph_cache.h"
#include "engine/model/decoder_model.h"
#include "engine/step_plan.h"
#include "kernels/device/device.h"

namespace rally {

inline constexpr int kStepsInFlight = 2;
inline constexpr int kStepRing = kStepsInFlight + 1;

struct ExecutorOptions {
  StepLimits limits;
  int32_t block_tokens = 0;
  int32_t block_count = 0;  // the null block included
};

class Executor {
 public:
  // Allocates everything, prepares the model and captures its steps for each half.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Device* device, DecoderModel* model,
                                                          const ExecutorOptions& options);
  // Waits for the steps in flight: they write to what is freed here.
  ~Executor();

  // Writes the committed plan's record and enqueues its step.
  void Launch(const StepPlan& plan);
  // Waits for the step's outcome, at most until `deadline`. The view is good until kStepRing steps
  // later. An error is the device's, or DEADLINE_EXCEEDED: the rank is lost.
  absl::StatusOr<StepOutcomeView> Join(uint64_t step, absl::Time deadline);

  int64_t kv_pool_bytes() const { return static_cast<int64_t>(kv_->size_bytes()); }
  int64_t step_bytes() const { return reserved_bytes_ - kv_pool_bytes(); }

 private:
  struct StepBuffer {
    std::unique_ptr<Buffer> record;    // pinned
    std::unique_ptr<Buffer> outcome;   // pinned
    std::unique_ptr<Event> delivered;  // the outcome is on the host
  };
  struct Half {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Buffer> record;
    std::unique_ptr<Buffer> outcome;
    GraphCache graphs;
    std::unique_ptr<Event> computed;  // the half's step has ended on the device
  };

  Executor(Device* device, DecoderModel* model, const ExecutorOptions& options)
      : device_(device), model_(model), options_(options) {}
  absl::Status AllocateBuffers();
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes);
  absl::Status CaptureSteps();
  StepTensors Tensors(const Half& half) const;
  StepBuffer& BufferOf(uint64_t step);
  Half& HalfOf(uint64_t step);

  Device* const device_;
  DecoderModel* const model_;
  const ExecutorOptions options_;
  int64_t reserved_bytes_ = 0;
  std::unique_ptr<Buffer> slots_;
  std::unique_ptr<Buffer> block_tables_;
  std::unique_ptr<Buffer> kv_;
  std::array<StepBuffer, kStepRing> ring_;
  std::array<Half, 2> halves_;
};

// The record of a committed plan: rows, tokens, samples, new blocks, slot resets.
void FillRecord(const StepPlan& plan, StepRecordView* record);

}  // namespace rally

#endif  // RALLY_ENGINE_EXECUTOR_H_
