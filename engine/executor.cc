#include "engine/executor.h"

#include "absl/strings/str_cat.h"
#include "engine/base/plant.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

StepShape ShapeOf(const StepHeader& header) {
  StepShape shape{header.row_count, header.token_count, header.sample_count, 0};
  shape.decode_only =
      shape.max_tokens == shape.max_rows && shape.max_samples == shape.max_rows ? 1 : 0;
  return shape;
}

// Where memory has run out: for what, and what to change.
absl::Status Explain(const absl::Status& status, absl::string_view what, absl::string_view remedy) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", status.message(), "; lower ", remedy));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Device* device, DecoderModel* model,
                                                           const ExecutorOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(device, model, options));
  RALLY_RETURN_IF_ERROR(
      Explain(executor->AllocateBuffers(), "step buffers", "max_rows or max_step_tokens"));
  RALLY_RETURN_IF_ERROR(Explain(model->Prepare(options.limits, options.block_tokens), "activations",
                                "max_step_tokens or max_rows"));
  RALLY_RETURN_IF_ERROR(Explain(executor->AllocateKvPool(), "KV pool",
                                "kv_pool_bytes or kv_memory_fraction, or else max_rows or "
                                "context_tokens"));
  if (options.graphs) {
    RALLY_RETURN_IF_ERROR(
        Explain(executor->CaptureSteps(), "graphs", "kv_pool_bytes or kv_memory_fraction"));
  }
  return executor;
}

Executor::~Executor() {
  for (Half& half : halves_) {
    if (half.stream != nullptr) device_->Sync(*half.stream).IgnoreError();
  }
  if (uploads_ != nullptr) device_->Sync(*uploads_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<Buffer>> Executor::Allocate(Space space, size_t bytes) {
  step_bytes_ += static_cast<int64_t>(bytes);
  return device_->Allocate(space, bytes);
}

absl::Status Executor::AllocateBuffers() {
  const StepLimits& limits = options_.limits;
  const size_t record_bytes = StepRecordView::Bytes(limits);
  const size_t outcome_bytes = StepOutcomeView::Bytes(limits);
  for (StepBuffer& buffer : ring_) {
    RALLY_ASSIGN_OR_RETURN(buffer.record, Allocate(Space::kPinnedHost, record_bytes));
    RALLY_ASSIGN_OR_RETURN(buffer.outcome, Allocate(Space::kPinnedHost, outcome_bytes));
    RALLY_ASSIGN_OR_RETURN(buffer.delivered, device_->NewEvent());
  }
  for (Half& half : halves_) {
    RALLY_ASSIGN_OR_RETURN(half.stream, device_->NewStream());
    RALLY_ASSIGN_OR_RETURN(half.record, Allocate(Space::kDevice, record_bytes));
    RALLY_ASSIGN_OR_RETURN(half.outcome, Allocate(Space::kDevice, outcome_bytes));
    RALLY_ASSIGN_OR_RETURN(half.computed, device_->NewEvent());
  }
  RALLY_ASSIGN_OR_RETURN(clock_, StepClock::Create(device_, kStepRing));
  if (options_.copy_streams) {
    RALLY_ASSIGN_OR_RETURN(uploads_, device_->NewStream());
    for (Half& half : halves_) {
      RALLY_ASSIGN_OR_RETURN(half.uploaded, device_->NewEvent());
    }
  }
  RALLY_ASSIGN_OR_RETURN(slots_, Allocate(Space::kDevice, sizeof(SlotState) * limits.slot_count));
  RALLY_ASSIGN_OR_RETURN(block_tables_,
                         Allocate(Space::kDevice, sizeof(int32_t) * limits.block_table_entries()));
  return absl::OkStatus();
}

absl::Status Executor::AllocateKvPool() {
  RALLY_ASSIGN_OR_RETURN(
      kv_, KvPool::Create(device_, {.kind = options_.kv_pool,
                                    .block_bytes = model_->KvBlockBytes(options_.block_tokens),
                                    .max_blocks = options_.block_count}));
  return absl::OkStatus();
}

absl::Status Executor::CaptureSteps() {
  for (Half& half : halves_) {
    const auto enqueue = [this, &half](const StepShape& shape) {
      model_->Forward(*half.stream, Tensors(half), shape);
    };
    RALLY_ASSIGN_OR_RETURN(half.graphs,
                           GraphCache::Capture(*device_, *half.stream, options_.limits, enqueue));
  }
  return device_->status();
}

StepTensors Executor::Tensors(const Half& half) const {
  StepTensors tensors;
  tensors.record = StepRecordView(half.record->data(), options_.limits);
  tensors.outcome = StepOutcomeView(half.outcome->data(), options_.limits);
  tensors.tables.slots = reinterpret_cast<SlotState*>(slots_->data());
  tensors.tables.block_tables = reinterpret_cast<int32_t*>(block_tables_->data());
  tensors.tables.max_blocks_per_slot = options_.limits.max_blocks_per_slot;
  tensors.kv_base = kv_->base();
  return tensors;
}

Executor::StepBuffer& Executor::BufferOf(uint64_t step) {
  return ring_[RALLY_PLANT(RING_OF_ONE) ? 0 : step % kStepRing];
}

Executor::Half& Executor::HalfOf(uint64_t step) { return halves_[step % 2]; }

Stream& Executor::StreamOf(const Half& half) const {
  return options_.copy_streams ? *halves_[0].stream : *half.stream;
}

absl::Status Executor::GrowKvPool(int32_t blocks, uint64_t next_step) {
  const std::byte* base = kv_->base();
  RALLY_RETURN_IF_ERROR(
      kv_->Grow(kNullBlock + 1 + blocks, {.stream = &StreamOf(HalfOf(next_step)),
                                          .after = HalfOf(next_step + 1).computed.get(),
                                          .next_step = next_step}));
  if (kv_->base() == base || RALLY_PLANT(GRAPH_KEPT_STALE)) return absl::OkStatus();
  for (Half& half : halves_) half.graphs.MarkStale();
  return absl::OkStatus();
}

void Executor::Launch(const StepPlan& plan) {
  StepBuffer& buffer = BufferOf(plan.step);
  StepRecordView record(buffer.record->data(), options_.limits);
  FillRecord(plan, &record);

  Half& half = HalfOf(plan.step);
  if (options_.copy_streams) return LaunchBesideCopies(record, buffer, half);
  Half& previous = HalfOf(plan.step + 1);
  Stream& stream = *half.stream;
  // Rule 13: planted, the record lands in the half that the step in flight may still read.
  const Half& target = RALLY_PLANT(RECORD_NOT_DOUBLED) ? previous : half;
  stream.Copy(target.record->data(), buffer.record->data(), record.UsedBytes());
  stream.Wait(*previous.computed);
  Run(stream, half, *record.header);
  stream.Record(*half.computed);
  stream.Copy(buffer.outcome->data(), half.outcome->data(), half.outcome->size_bytes());
  stream.Record(*buffer.delivered);
}

void Executor::Run(Stream& stream, Half& half, const StepHeader& header) {
  const StepShape shape = ShapeOf(header);
  clock_->Begin(stream, header.step);
  if (Graph* graph = half.graphs.Find(shape); graph != nullptr) {
    stream.Launch(*graph);
  } else {
    model_->Forward(stream, Tensors(half), shape);
  }
  clock_->End(stream, header.step);
}

// A record that went to the stream of the outcomes would wait there for the step in flight.
void Executor::LaunchBesideCopies(const StepRecordView& record, StepBuffer& buffer, Half& half) {
  Stream& steps = StreamOf(half);
  Stream& outcomes = *halves_[1].stream;
  uploads_->Copy(half.record->data(), buffer.record->data(), record.UsedBytes());
  uploads_->Record(*half.uploaded);
  steps.Wait(*half.uploaded);
  Run(steps, half, *record.header);
  steps.Record(*half.computed);
  outcomes.Wait(*half.computed);
  outcomes.Copy(buffer.outcome->data(), half.outcome->data(), half.outcome->size_bytes());
  outcomes.Record(*buffer.delivered);
}

absl::StatusOr<StepOutcomeView> Executor::Join(uint64_t step, absl::Time deadline) {
  StepBuffer& buffer = BufferOf(step);
  RALLY_RETURN_IF_ERROR(buffer.delivered->SyncUntil(deadline));
  RALLY_RETURN_IF_ERROR(device_->status());
  kv_->Complete(step);
  const StepOutcomeView outcome(buffer.outcome->data(), options_.limits);
  clock_->Correct(step, outcome.header);
  return outcome;
}

}  // namespace rally
