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
        pool_blocks_(state.blocks.total()),
        free_blocks_(state.blocks.free()),
        coming_blocks_(state.blocks.releasing()),
        budget_(limits.max_step_tokens) {
    for (const Sequence* s : state.running) {
      if (s->state == SequenceState::kPreempting) coming_blocks_ += BlockCount(*s);
      blocks_to_end_ += BlocksToEnd(*s);
      growing_rows_ += BlocksToEnd(*s) > BlockCount(*s) ? 1 : 0;
    }
  }

  void AddDecodeRows() {
    for (Sequence* s : state_.running) {
      if (!Runs(*s) || !IsDecode(*s) || !MaySample(*s)) continue;
      const int32_t first = limits_.kv_cache ? s->launched : 0;
      const int32_t count = s->launched + 1 - first;
      if (count > budget_) continue;  // a whole prefix that this step has no room for
      const int32_t need = NewBlocks(*s, 1, limits_.block_tokens);
      if (need > free_blocks_) {
        short_of_blocks_ = true;
        if (coming_blocks_ == 0) PreemptNewest();
        continue;
      }
      AddRow({.sequence = s, .first_position = first, .token_count = count, .new_blocks = need});
    }
  }

  void AddPrefillRows() {
    for (Sequence* s : state_.running) {
      if (budget_ == 0) return;
      if (!Runs(*s) || IsDecode(*s)) continue;
      AddRow(PrefillRow(s, 0));  // its blocks were taken when it was admitted
    }
  }

  void Admit() {
    if (short_of_blocks_) return;
    auto running = static_cast<int32_t>(state_.running.size());
    int32_t free_slots = state_.slots.free();
    for (Sequence* s : state_.waiting) {
      if (running == limits_.max_rows || free_slots == 0 || budget_ == 0) return;
      if (!limits_.kv_cache && ChunkOf(*s) < Remaining(*s)) return;
      const int32_t need = BlocksFor(s->known(), limits_.block_tokens);
      const int32_t grown = Growth(*s);
      const int32_t free_blocks = free_blocks_ + grown;
      // A block of headroom for each running row that will need more, so that admitting does not
      // force a preemption on the next block edge.
      if (need + growing_rows_ > free_blocks && !(running == 0 && need <= free_blocks)) {
        if (running == 0 && !state_.InFlight() && coming_blocks_ == 0) plan_->rejected = s;
        return;
      }
      Grow(grown);
      blocks_to_end_ += BlocksToEnd(*s);
      growing_rows_ += BlocksToEnd(*s) > need ? 1 : 0;
      plan_->admitted.push_back(s);
      AddRow(PrefillRow(s, need));
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

  // Of a sequence's whole length; its last token needs none.
  int32_t BlocksToEnd(const Sequence& s) const {
    return BlocksFor(std::max(1, s.prompt_count + s.output_limit - 1), limits_.block_tokens);
  }

  // What the pool grows by if `s` is admitted: see the headroom in Admit.
  int32_t Growth(const Sequence& s) const {
    const int64_t wanted = blocks_to_end_ + BlocksToEnd(s) + growing_rows_;
    return static_cast<int32_t>(
        std::max<int64_t>(0, std::min<int64_t>(wanted, limits_.max_blocks) - pool_blocks_));
  }

  void Grow(int32_t blocks) {
    if (blocks == 0) return;
    free_blocks_ += blocks;
    pool_blocks_ += blocks;
    plan_->pool_blocks = pool_blocks_;
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

  PlanRow PrefillRow(Sequence* s, int32_t new_blocks) const {
    return {.sequence = s,
            .first_position = s->launched,
            .token_count = ChunkOf(*s),
            .new_blocks = new_blocks,
            .prefill = true};
  }

  void AddRow(PlanRow row) {
    row.samples = row.end() >= row.sequence->known();
    plan_->rows.push_back(row);
    plan_->token_count += row.token_count;
    plan_->sample_count += row.samples ? 1 : 0;
    free_blocks_ -= row.new_blocks;
    budget_ -= row.token_count;
  }

  const SchedulerState& state_;
  const SchedulerLimits& limits_;
  StepPlan* const plan_;
  int32_t pool_blocks_;  // with what this plan grows by
  int32_t free_blocks_;
  int64_t blocks_to_end_ = 0;  // of all that run
  int32_t growing_rows_ = 0;   // that do not hold all blocks to their end
  int32_t coming_blocks_;      // releasing, or of sequences that are being preempted
  int32_t budget_;             // tokens
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
    s->launched = row.end();
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
