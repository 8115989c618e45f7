// Owns the sequences of an engine from acceptance to the end of their last step, and is the one
// place that changes them after a step: Apply and End. Engine thread only.
#ifndef RALLY_ENGINE_SEQUENCE_TABLE_H_
#define RALLY_ENGINE_SEQUENCE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "engine/admission.h"
#include "engine/emitter.h"
#include "engine/engine_stats.h"
#include "engine/scheduler.h"
#include "engine/step_effects.h"

namespace rally {

class SequenceTable {
 public:
  // All outlive the table.
  SequenceTable(Admission* admission, EngineStats* stats, Emitter* emitter, SchedulerState* state);

  // Takes over an accepted sequence and puts it at the end of the queue.
  void Add(std::unique_ptr<Sequence> sequence);
  // Null for a key that has ended or never was.
  Sequence* Find(uint64_t key) const;

  // The plan was committed at `now`: queue times end for the sequences it admits.
  void OnPlanned(const StepPlan& plan, absl::Time now);
  void Apply(const StepEffects& effects, absl::Time now);
  // The one way to end a sequence: terminal event, books, statistics (rule 10).
  void EndSequence(Sequence* sequence, const End& end, absl::Time now);
  void EndAll(const End& end, absl::Time now);
  // Ends what is past its deadline.
  void ExpireDeadlines(absl::Time now);
  // Forgets ended sequences that no launched step names any more.
  void Sweep();

 private:
  void ApplyToken(const RowEffect& effect, absl::Time now);
  void LeaveQueue(Sequence* sequence);
  Finish MakeFinish(const Sequence& sequence, const End& end, absl::Time now) const;

  Admission* const admission_;
  EngineStats* const stats_;
  Emitter* const emitter_;
  SchedulerState* const state_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<std::unique_ptr<Sequence>> ended_;  // wait for their last step
  std::vector<Sequence*> scratch_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_SEQUENCE_TABLE_H_
