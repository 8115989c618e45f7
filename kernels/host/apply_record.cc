#include "kernels/host/host_clock.h"
#include "kernels/host/host_ops.h"

namespace rally {
namespace {

// The null slot keeps its state and its null blocks whatever a record says: padding rows write
// there and must never reach a living block.
void ApplyResets(const StepRecordView& record, const SlotTables& tables) {
  for (int32_t i = 0; i < record.header->reset_count; ++i) {
    const SlotReset& reset = record.resets[i];
    if (reset.slot != kNullSlot) tables.slots[reset.slot] = reset.state;
  }
}

void ApplyBlockUpdates(const StepRecordView& record, const SlotTables& tables) {
  for (int32_t i = 0; i < record.header->block_update_count; ++i) {
    const BlockUpdate& update = record.block_updates[i];
    if (update.slot == kNullSlot) continue;
    tables.block_tables[int64_t{update.slot} * tables.max_blocks_per_slot + update.index] =
        update.block;
  }
}

void ExpandRows(const ApplyRecordArgs& a) {
  for (int32_t r = 0; r < a.record.header->row_count; ++r) {
    const StepRow& row = a.record.rows[r];
    for (int32_t i = 0; i < row.token_count; ++i) {
      const int32_t id = a.record.tokens[row.token_begin + i];
      a.tokens[row.token_begin + i] = {
          .id = id == kTokenFromSlot ? a.tables.slots[row.slot].last_token : id,
          .position = row.first_position + i,
          .slot = row.slot};
    }
  }
}

}  // namespace

void RunApplyRecord(const ApplyRecordArgs& a) {
  a.outcome.header->step = a.record.header->step;
  a.outcome.header->start_ns = HostClockNanos();
  a.outcome.header->row_count = a.record.header->sample_count;
  ApplyResets(a.record, a.tables);
  ApplyBlockUpdates(a.record, a.tables);
  ExpandRows(a);
}

}  // namespace rally
