// Chooses the rows of the next step, and books them.
//
// The loop is Orca's Algorithm 1 (Yu et al., OSDI 2022): Schedule is its Select over the pool, the
// blocks that Commit takes are its n_rsrv, two steps in flight are its n_workers = 2. Prefill and
// decode are not phases here: a row is "the positions from launched on".
//
// Policy, oldest first: every running sequence gets its decode row; then prompts advance in chunks
// within the step's token budget, so decode rows never wait for a prefill and every prompt moves
// on; then the queue's head is admitted while a slot and the blocks of its whole known text are
// free. A decode row that lacks a block waits one step if blocks are on their way; else the newest
// sequence gives up its blocks and is computed again later (preemption by recompute).
//
// A pool that may grow does so when a sequence is admitted and at no other time (rule 11), so far
// that all that run then can reach their ends.
#ifndef RALLY_ENGINE_SCHEDULER_H_
#define RALLY_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/id_pool.h"
#include "engine/step_plan.h"
#include "kernels/step_record.h"

namespace rally {

struct SchedulerLimits {
  int32_t max_rows = 0;
  int32_t max_step_tokens = 0;
  int32_t max_chunk_tokens = 0;
  int32_t block_tokens = 0;
  int32_t max_blocks = 0;  // that a pool may grow to; 0: it does not
  bool kv_cache = true;    // false: a row is all positions from 0 on, in one step
};

// The sequences and what they own. Engine thread only.
struct SchedulerState {
  SchedulerState(int32_t block_count, int32_t slot_count, int32_t max_blocks = 0)
      : blocks(kNullBlock + 1, block_count, max_blocks), slots(kNullSlot + 1, slot_count) {}

  std::deque<Sequence*> waiting;   // by key: arrival order, preempted ones included
  std::vector<Sequence*> running;  // by key; kRunning and kPreempting
  IdPool blocks;
  IdPool slots;
  uint64_t launched_step = 0;   // newest launched step, counted from 1
  uint64_t completed_step = 0;  // newest joined step
  uint32_t generation = 0;      // tenancies so far, over all slots
  int64_t preemptions = 0;

  bool InFlight() const { return launched_step > completed_step; }
  bool Idle() const { return waiting.empty() && running.empty() && !InFlight(); }
};

// Pure: changes nothing but *plan.
void Schedule(const SchedulerState& state, const SchedulerLimits& limits, StepPlan* plan);

// Takes slots and blocks, raises launched, and gives the plan its step number if it has rows.
// Preempted sequences that no step in flight names give up their blocks at once.
void Commit(StepPlan* plan, SchedulerState* state);

// The step has been joined and applied: releasing ids become free, preempting sequences whose last
// step this was go back to the queue.
void CompleteStep(uint64_t step, SchedulerState* state);

// Takes a sequence out of the queue or the running set; its slot and blocks wait for its last step.
void Retire(Sequence* sequence, SchedulerState* state);

// Blocks that `positions` positions need.
inline int32_t BlocksFor(int64_t positions, int32_t block_tokens) {
  return static_cast<int32_t>((positions + block_tokens - 1) / block_tokens);
}

}  // namespace rally

#endif  // RALLY_ENGINE_SCHEDULER_H_
