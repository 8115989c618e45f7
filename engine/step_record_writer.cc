// FillRecord: what the host tells the device about one step.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/plant.h"
#include "engine/executor.h"

namespace rally {
namespace {

// The whole slot, so that nothing of its last tenant is left (rule 6). A resumed sequence goes on
// at its output position: noise and min_tokens count from there (rule 4).
SlotReset ResetOf(const Sequence& s) {
  SlotReset reset;
  reset.slot = s.slot;
  SlotState& state = reset.state;
  state.output_count = RALLY_PLANT(SLOT_RESET_PARTIAL) ? 0 : s.output_count();
  state.generation = s.generation;
  state.seed = s.spec.sampling.seed;
  state.temperature = s.spec.sampling.temperature;
  state.top_p = s.spec.sampling.top_p;
  state.min_p = s.spec.sampling.min_p;
  state.top_k = s.spec.sampling.top_k;
  state.min_tokens = s.spec.stop.min_tokens;
  state.stop_id_count = static_cast<int32_t>(s.stop_ids.size());
  std::copy(s.stop_ids.begin(), s.stop_ids.end(), state.stop_ids);
  return reset;
}

// The id at `position`, or "what the slot sampled": the newest token may be on the device only.
int32_t TokenAt(const Sequence& s, int32_t position) {
  if (position < s.known()) return s.ids[position];
  return RALLY_PLANT(LAST_TOKEN_FROM_HOST) ? s.ids.back() : kTokenFromSlot;
}

void FillBlocks(const PlanRow& row, StepRecordView* record) {
  const Sequence& s = *row.sequence;
  const auto end = static_cast<int32_t>(s.blocks.size());
  for (int32_t i = end - row.new_blocks; i < end; ++i) {
    record->block_updates[record->header->block_update_count++] = {s.slot, i, s.blocks[i]};
  }
}

void FillRow(const PlanRow& row, StepRecordView* record) {
  const Sequence& s = *row.sequence;
  StepHeader& header = *record->header;
  record->rows[header.row_count++] = {s.slot, header.token_count, row.token_count,
                                      row.first_position};
  for (int32_t i = 0; i < row.token_count; ++i) {
    record->tokens[header.token_count++] = TokenAt(s, row.first_position + i);
  }
  if (row.samples) record->samples[header.sample_count++] = {header.token_count - 1, s.slot};
}

}  // namespace

void FillRecord(const StepPlan& plan, StepRecordView* record) {
  *record->header = StepHeader{.step = plan.step};
  for (const Sequence* s : plan.admitted) {
    record->resets[record->header->reset_count++] = ResetOf(*s);
  }
  for (const PlanRow& row : plan.rows) {
    FillBlocks(row, record);
    FillRow(row, record);
  }
  RALLY_CHECK(record->header->token_count == plan.token_count);
  RALLY_CHECK(record->header->sample_count == plan.sample_count);
}

}  // namespace rally
