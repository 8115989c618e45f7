// What a step is going to do, as plain data: made by Schedule, carried out by Commit and the
// executor, judged by Resolve. The vectors are reused, so that a step allocates nothing.
#ifndef RALLY_ENGINE_STEP_PLAN_H_
#define RALLY_ENGINE_STEP_PLAN_H_

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace rally {

struct PlanRow {
  Sequence* sequence = nullptr;
  int32_t first_position = 0;
  int32_t token_count = 0;
  int32_t new_blocks = 0;   // blocks to take before the launch (rule 2)
  bool prefill = false;     // the tokens are known ids that catch up, not the newest one
  bool samples = false;     // the row's last token makes an output token
  uint32_t generation = 0;  // of the slot at launch, set by Commit

  int32_t end() const { return first_position + token_count; }
};

struct StepPlan {
  uint64_t step = 0;
  std::vector<PlanRow> rows;
  std::vector<Sequence*> admitted;   // waiting -> running; their rows are in `rows`
  std::vector<Sequence*> preempted;  // running -> preempting; without a row here
  Sequence* rejected = nullptr;      // can never run (rule 8)
  int32_t token_count = 0;
  int32_t sample_count = 0;
  int32_t pool_blocks = 0;  // that the KV pool must have grown to before the commit; 0: enough

  bool HasRows() const { return !rows.empty(); }
  bool HasEffects() const { return HasRows() || !preempted.empty() || rejected != nullptr; }
  void Reserve(int32_t max_rows) {
    rows.reserve(max_rows);
    admitted.reserve(max_rows);
    preempted.reserve(max_rows);
  }
  void Clear() {
    step = 0;
    rows.clear();
    admitted.clear();
    preempted.clear();
    rejected = nullptr;
    token_count = 0;
    sample_count = 0;
    pool_blocks = 0;
  }
};

}  // namespace rally

#endif  // RALLY_ENGINE_STEP_PLAN_H_
