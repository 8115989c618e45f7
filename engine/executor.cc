#include "engine/executor.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(Device* device, DecoderModel* model,
                                                           const ExecutorOptions& options) {
  std::unique_ptr<Executor> executor(new Executor(device, model, options));
  RALLY_RETURN_IF_ERROR(executor->AllocateBuffers());
  RALLY_RETURN_IF_ERROR(model->Prepare(options.limits, options.block_tokens));
  RALLY_RETURN_IF_ERROR(executor->CaptureSteps());
  return executor;
}

Executor::~Executor() {
  for (Half& half : halves_) {
    if (half.stream != nullptr) device_->Sync(*half.stream).IgnoreError();
  }
}

absl::StatusOr<std::unique_ptr<Buffer>> Executor::Allocate(Space space, size_t bytes) {
  reserved_bytes_ += static_cast<int64_t>(bytes);
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
  RALLY_ASSIGN_OR_RETURN(slots_, Allocate(Space::kDevice, sizeof(SlotState) * limits.slot_count));
  RALLY_ASSIGN_OR_RETURN(block_tables_,
                         Allocate(Space::kDevice, sizeof(int32_t) * limits.block_table_entries()));
  const int64_t block_bytes = model_->KvBlockBytes(options_.block_tokens);
  RALLY_ASSIGN_OR_RETURN(kv_, Allocate(Space::kDevice, block_bytes * options_.block_count));
  return absl::OkStatus();
}

absl::Status Executor::CaptureSteps() {
  for (Half& half : halves_) {
    const StepTensors tensors = Tensors(half);
    RALLY_ASSIGN_OR_RETURN(
        half.graphs,
        GraphCache::Capture(*device_, *half.stream, options_.limits, [&](const StepShape& shape) {
          model_->Forward(*half.stream, tensors, shape);
        }));
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
  tensors.kv_base = kv_->data();
  return tensors;
}

Executor::StepBuffer& Executor::BufferOf(uint64_t step) {
  return ring_[RALLY_PLANT(RING_OF_ONE) ? 0 : step % kStepRing];
}

Executor::Half& Executor::HalfOf(uint64_t step) { return halves_[step % 2]; }

void Executor::Launch(const StepPlan& plan) {
  StepBuffer& buffer = BufferOf(plan.step);
  StepRecordView record(buffer.record->data(), options_.limits);
  FillRecord(plan, &record);

  Half& half = HalfOf(plan.step);
  Half& previous = HalfOf(plan.step + 1);
  Stream& stream = *half.stream;
  // Rule 13: planted, the record lands in the half that the step in flight may still read.
  const Half& target = RALLY_PLANT(RECORD_NOT_DOUBLED) ? previous : half;
  stream.Copy(target.record->data(), buffer.record->data(), record.UsedBytes());
  stream.Wait(*previous.computed);
  const StepShape shape = ShapeOf(*record.header);
  if (Graph* graph = half.graphs.Find(shape); graph != nullptr) {
    stream.Launch(*graph);
  } else {
    model_->Forward(stream, Tensors(half), shape);
  }
  stream.Record(*half.computed);
  stream.Copy(buffer.outcome->data(), half.outcome->data(), half.outcome->size_bytes());
  stream.Record(*buffer.delivered);
}

absl::StatusOr<StepOutcomeView> Executor::Join(uint64_t step, absl::Time deadline) {
  StepBuffer& buffer = BufferOf(step);
  RALLY_RETURN_IF_ERROR(buffer.delivered->SyncUntil(deadline));
  RALLY_RETURN_IF_ERROR(device_->status());
  return StepOutcomeView(buffer.outcome->data(), options_.limits);
}

}  // namespace rally
