#include "engine/scheduler.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/plant.h"

namespace rally {
namespace {

bool ByKey(const Sequence* a, const Sequence* b) { return a->key < b->key; }

int32_t Remaining(const Sequence& s) { return s.known() - s.launched; }

// At most one more known position, or a token that the device holds: a row of one token.
bool IsDecode(const Sequence& s) { return s.launched > 0 && Remaining(s) <= 1; }

// Rule 1: an end that the host can foresee gets no row.
bool MaySample(const Sequence& s) {
  return s.outputs_launched() < s.output_limit || RALLY_PLANT(FORESEEABLE_END_IGNORED);
}

int32_t NewBlocks(const Sequence& s, int32_t token_count, int32_t block_tokens) {
  // Rule 2: the positions that this step writes are covered before it is launched.
  const int64_t end = RALLY_PLANT(KV_RESERVED_LATE) ? s.launched : s.launched + token_count;
  return std::max(0, BlocksFor(end, block_tokens) - static_cast<int32_t>(s.blocks.size()));
}

// One pass over the state; what is handed out is counted in copies.
class Planner {
 public:
  Planner(const SchedulerState& state, const SchedulerLimits& limits, StepPlan* plan)
      : state_(state),
        limits_(limits),
        plan_(plan),
        free_blocks_(state.blocks.free()),
        coming_blocks_(state.blocks.releasing()),
        budget_(limits.max_step_tokens) {
    for (const Sequence* s : state.running) {
      if (s->state == SequenceState::kPreempting) coming_blocks_ += BlockCount(*s);
    }
  }

  void AddDecodeRows() {
    for (Sequence* s : state_.running) {
      if (!Runs(*s) || !IsDecode(*s) || !MaySample(*s)) continue;
      const int32_t need = NewBlocks(*s, 1, limits_.block_tokens);
      if (need > free_blocks_) {
        short_of_blocks_ = true;
        if (coming_blocks_ == 0) PreemptNewest();
        continue;
      }
      AddRow(s, 1, need, false);
    }
  }

  void AddPrefillRows() {
    for (Sequence* s : state_.running) {
      if (budget_ == 0) return;
      if (!Runs(*s) || IsDecode(*s)) continue;
      AddRow(s, ChunkOf(*s), 0, true);  // its blocks were taken when it was admitted
    }
  }

  void Admit() {
    if (short_of_blocks_) return;
    auto running = static_cast<int32_t>(state_.running.size());
    int32_t free_slots = state_.slots.free();
    for (Sequence* s : state_.waiting) {
      if (running == limits_.max_rows || free_slots == 0 || budget_ == 0) return;
      const int32_t need = BlocksFor(s->known(), limits_.block_tokens);
      // One block of headroom for each running row, so that admitting does not force a preemption
      // on the next block edge.
      if (need + running > free_blocks_ && !(running == 0 && need <= free_blocks_)) {
        if (running == 0 && !state_.InFlight() && coming_blocks_ == 0) plan_->rejected = s;
        return;
      }
      plan_->admitted.push_back(s);
      AddRow(s, ChunkOf(*s), need, true);
      ++running;
      --free_slots;
    }
  }

 private:
  static int32_t BlockCount(const Sequence& s) { return static_cast<int32_t>(s.blocks.size()); }

  bool Runs(const Sequence& s) const {
    return s.state == SequenceState::kRunning &&
           std::find(plan_->preempted.begin(), plan_->preempted.end(), &s) ==
               plan_->preempted.end();
  }

  int32_t ChunkOf(const Sequence& s) const {
    return std::min({Remaining(s), limits_.max_chunk_tokens, budget_});
  }

  // The newest running sequence leaves the plan; older rows, which may be planned already, stay.
  void PreemptNewest() {
    for (auto it = state_.running.rbegin(); it != state_.running.rend(); ++it) {
      if (!Runs(**it)) continue;
      plan_->preempted.push_back(*it);
      coming_blocks_ += BlockCount(**it);
      return;
    }
  }

  void AddRow(Sequence* s, int32_t token_count, int32_t new_blocks, bool prefill) {
    PlanRow row;
    row.sequence = s;
    row.first_position = s->launched;
    row.token_count = token_count;
    row.new_blocks = new_blocks;
    row.prefill = prefill;
    row.samples = s->launched + token_count >= s->known();
    plan_->rows.push_back(row);
    plan_->token_count += token_count;
    plan_->sample_count += row.samples ? 1 : 0;
    free_blocks_ -= new_blocks;
    budget_ -= token_count;
  }

  const SchedulerState& state_;
  const SchedulerLimits& limits_;
  StepPlan* const plan_;
  int32_t free_blocks_;
  int32_t coming_blocks_;  // releasing, or of sequences that are being preempted
  int32_t budget_;         // tokens
  bool short_of_blocks_ = false;
};

void InsertByKey(Sequence* s, std::vector<Sequence*>* list) {
  list->insert(std::upper_bound(list->begin(), list->end(), s, ByKey), s);
}

void GiveBack(Sequence* s, uint64_t last_step, SchedulerState* state) {
  for (int32_t block : s->blocks) state->blocks.Release(block, last_step);
  s->blocks.clear();
  state->slots.Release(s->slot, last_step);
  s->slot = -1;
}

// Everything that the sequence computed is forgotten; its known ids are enough to go on (rule 14).
void Requeue(Sequence* s, SchedulerState* state) {
  GiveBack(s, s->last_step, state);
  std::erase(state->running, s);
  s->launched = 0;
  s->confirmed = 0;
  s->state = SequenceState::kWaiting;
  ++s->preemptions;
  ++state->preemptions;
  state->waiting.insert(std::upper_bound(state->waiting.begin(), state->waiting.end(), s, ByKey),
                        s);
}

}  // namespace

void Schedule(const SchedulerState& state, const SchedulerLimits& limits, StepPlan* plan) {
  plan->Clear();
  Planner planner(state, limits, plan);
  planner.AddDecodeRows();
  planner.AddPrefillRows();
  planner.Admit();
}

void Commit(StepPlan* plan, SchedulerState* state) {
  for (Sequence* s : plan->admitted) {
    RALLY_CHECK(s == state->waiting.front());
    state->waiting.pop_front();
    InsertByKey(s, &state->running);
    s->state = SequenceState::kRunning;
    s->slot = state->slots.Take();
    s->generation = ++state->generation;
  }
  if (plan->HasRows()) plan->step = ++state->launched_step;
  for (PlanRow& row : plan->rows) {
    Sequence* s = row.sequence;
    for (int32_t i = 0; i < row.new_blocks; ++i) s->blocks.push_back(state->blocks.Take());
    s->launched += row.token_count;
    s->last_step = plan->step;
    row.generation = s->generation;
  }
  for (Sequence* s : plan->preempted) {
    s->state = SequenceState::kPreempting;
    // Rule 14: with a step in flight, preemption waits for its join.
    if (RALLY_PLANT(PREEMPTED_IN_FLIGHT)) s->last_step = 0;
    if (s->last_step <= state->completed_step) Requeue(s, state);
  }
}

void CompleteStep(uint64_t step, SchedulerState* state) {
  state->completed_step = step;
  state->blocks.Complete(step);
  state->slots.Complete(step);
  for (size_t i = state->running.size(); i-- > 0;) {
    Sequence* s = state->running[i];
    if (s->state != SequenceState::kPreempting || s->last_step > step) continue;
    Requeue(s, state);
  }
}

void Retire(Sequence* s, SchedulerState* state) {
  if (s->state == SequenceState::kWaiting) {
    std::erase(state->waiting, s);
  } else {
    std::erase(state->running, s);
    GiveBack(s, s->last_step, state);
  }
  s->state = SequenceState::kEnded;
}

}  // namespace rally
