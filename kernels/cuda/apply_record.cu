// The first kernel of a step: stamps the start, resets slots, updates block tables, expands rows.
//
// One block, because the three parts depend on each other in this order and their data is small: a
// barrier between them is cheaper than two more launches. Moved are 200 bytes a reset, 16 an update
// and 16 a token. No two entries of a record name the same slot or the same place of a table.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

constexpr int kThreads = 1024;
constexpr int32_t kShortRow = 4;  // tokens that one thread expands alone

// The null slot keeps its state and its null blocks whatever a record says: padding rows write
// there and must never reach a living block.
__device__ void ApplyResets(const StepRecordView& record, const SlotTables& tables) {
  static_assert(sizeof(SlotState) % sizeof(uint32_t) == 0);
  constexpr int kWords = sizeof(SlotState) / sizeof(uint32_t);
  const int words = record.header->reset_count * kWords;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) {
    const SlotReset& reset = record.resets[i / kWords];
    if (reset.slot == kNullSlot) continue;
    reinterpret_cast<uint32_t*>(&tables.slots[reset.slot])[i % kWords] =
        reinterpret_cast<const uint32_t*>(&reset.state)[i % kWords];
  }
}

__device__ void ApplyBlockUpdates(const StepRecordView& record, const SlotTables& tables) {
  const int count = record.header->block_update_count;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const BlockUpdate update = record.block_updates[i];
    if (update.slot == kNullSlot) continue;
    tables.block_tables[int64_t{update.slot} * tables.max_blocks_per_slot + update.index] =
        update.block;
  }
}

__device__ void ExpandToken(const ApplyRecordArgs& a, const StepRow& row, int32_t i) {
  const int32_t id = a.record.tokens[row.token_begin + i];
  a.tokens[row.token_begin + i] = {id == kTokenFromSlot ? a.tables.slots[row.slot].last_token : id,
                                   row.first_position + i, row.slot};
}

// Short rows go one a thread; the long ones are then spread over the block one after the other.
__device__ void ExpandRows(const ApplyRecordArgs& a) {
  const int32_t rows = a.record.header->row_count;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  bool long_row = false;
  for (int32_t r = thread; r < rows; r += kThreads) {
    const StepRow row = a.record.rows[r];
    long_row |= row.token_count > kShortRow;
    if (row.token_count > kShortRow) continue;
    for (int32_t i = 0; i < row.token_count; ++i) ExpandToken(a, row, i);
  }
  if (__syncthreads_or(long_row) == 0) return;
  for (int32_t r = 0; r < rows; ++r) {
    const StepRow row = a.record.rows[r];
    if (row.token_count <= kShortRow) continue;
    for (int32_t i = thread; i < row.token_count; i += kThreads) ExpandToken(a, row, i);
  }
}

__global__ void __launch_bounds__(kThreads) ApplyRecordKernel(const ApplyRecordArgs a) {
  LetNextStart();
  WaitForInputs();
  if (threadIdx.x == 0) {
    // Sample raises end_ns to the end of its last block.
    *a.outcome.header = {.step = a.record.header->step,
                         .start_ns = GlobalNanos(),
                         .end_ns = 0,
                         .row_count = a.record.header->sample_count};
  }
  ApplyResets(a.record, a.tables);
  ApplyBlockUpdates(a.record, a.tables);
  __syncthreads();
  ExpandRows(a);
}

}  // namespace

void EnqueueApplyRecord(Stream& stream, const ApplyRecordArgs& a) {
  LaunchKernel(stream, "apply_record", ApplyRecordKernel, {1, kThreads}, a);
}

}  // namespace rally
