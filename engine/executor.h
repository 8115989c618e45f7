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
// When a growing KV pool has moved, the copy of its blocks and a wait stand before the record.
// Engine thread only.
#ifndef RALLY_ENGINE_EXECUTOR_H_
#define RALLY_ENGINE_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/graph_cache.h"
#include "engine/kv_pool.h"
#include "engine/model/decoder_model.h"
#include "engine/step_clock.h"
#include "engine/step_plan.h"
#include "kernels/device/device.h"

namespace rally {

inline constexpr int kStepsInFlight = 2;
inline constexpr int kStepRing = kStepsInFlight + 1;

struct ExecutorOptions {
  StepLimits limits;
  int32_t block_tokens = 0;
  KvPoolKind kv_pool = KvPoolKind::kFixed;
  int32_t block_count = 0;  // the null block included; what a growing pool may reach
  bool graphs = true;
  // Another arrangement, to compare with: all steps on one stream, the copies on two others.
  bool copy_streams = false;
};

class Executor {
 public:
  // Allocates everything, prepares the model and captures its steps for each half.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Device* device, DecoderModel* model,
                                                          const ExecutorOptions& options);
  // Waits for the steps in flight: they write to what is freed here.
  ~Executor();

  // Blocks that sequences may have now, the null block not counted.
  int32_t kv_blocks() const { return kv_->blocks() - kNullBlock - 1; }
  // Makes kv_blocks at least `blocks`, before `next_step` is launched. RESOURCE_EXHAUSTED: the
  // device has no memory left, and nothing has changed.
  absl::Status GrowKvPool(int32_t blocks, uint64_t next_step);
  // Writes the committed plan's record and enqueues its step.
  void Launch(const StepPlan& plan);
  // Waits for the step's outcome, at most until `deadline`. The view is good until kStepRing steps
  // later. An error is the device's, or DEADLINE_EXCEEDED: the rank is lost.
  absl::StatusOr<StepOutcomeView> Join(uint64_t step, absl::Time deadline);

  // Any thread.
  int64_t kv_pool_bytes() const { return kv_->size_bytes(); }
  int64_t step_bytes() const { return step_bytes_; }
  bool timed_by_events() const { return clock_->uses_events(); }

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
    std::unique_ptr<Event> uploaded;  // with copy streams: the half's record is there
  };

  Executor(Device* device, DecoderModel* model, const ExecutorOptions& options)
      : device_(device), model_(model), options_(options) {}
  absl::Status AllocateBuffers();
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes);
  absl::Status AllocateKvPool();
  absl::Status CaptureSteps();
  StepTensors Tensors(const Half& half) const;
  StepBuffer& BufferOf(uint64_t step);
  Half& HalfOf(uint64_t step);
  // Where the ops of a half's steps run.
  Stream& StreamOf(const Half& half) const;
  void Run(Stream& stream, Half& half, const StepHeader& header);
  void LaunchBesideCopies(const StepRecordView& record, StepBuffer& buffer, Half& half);

  Device* const device_;
  DecoderModel* const model_;
  const ExecutorOptions options_;
  int64_t step_bytes_ = 0;
  std::unique_ptr<Buffer> slots_;
  std::unique_ptr<Buffer> block_tables_;
  std::unique_ptr<KvPool> kv_;
  std::array<StepBuffer, kStepRing> ring_;
  std::array<Half, 2> halves_;
  std::unique_ptr<Stream> uploads_;  // with copy streams
  std::optional<StepClock> clock_;
};

// The record of a committed plan: rows, tokens, samples, new blocks, slot resets.
void FillRecord(const StepPlan& plan, StepRecordView* record);

}  // namespace rally

#endif  // RALLY_ENGINE_EXECUTOR_H_
