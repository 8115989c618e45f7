// From a step's outcome to what it means: Resolve decides, once and without side effects; Apply (in
// engine/sequence_table) carries it out.
#ifndef RALLY_ENGINE_STEP_EFFECTS_H_
#define RALLY_ENGINE_STEP_EFFECTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "engine/text/vocabulary.h"
#include "kernels/step_record.h"

namespace rally {

// How a sequence ends.
struct End {
  FinishReason reason = FinishReason::kFailed;
  absl::Status status = absl::OkStatus();  // OK for the reasons that a model or a request gives
  int32_t stop_token_id = -1;              // kEos, kStopToken
  int32_t stop_string_index = -1;          // kStopString
  int64_t final_bytes = 0;                 // of the raw output that are text of the answer
};

struct RowEffect {
  enum class Kind {
    kPrefill,  // positions are confirmed, no token
    kToken,    // positions are confirmed, one token is new
    kFailed,   // positions are confirmed, sampling failed: `end` is set
    kSurplus,  // the sequence had ended before this outcome: dropped (rule 9)
    kStale,    // of an older tenant of the slot: dropped (rule 3)
  };
  Kind kind = Kind::kPrefill;
  Sequence* sequence = nullptr;
  int32_t confirmed = 0;  // positions, after the row
  int32_t token = 0;
  StopMatcher::State stop_state;  // after the token
  int64_t text_bytes = 0;         // after the token
  int64_t sendable_bytes = 0;
  std::optional<End> end;
};

struct StepEffects {
  std::vector<RowEffect> rows;
};

// Pure. The outcome's rows stand for the plan's sampling rows, in order.
void Resolve(const StepPlan& plan, const StepOutcomeView& outcome, const Vocabulary& vocabulary,
             StepEffects* effects);

}  // namespace rally

#endif  // RALLY_ENGINE_STEP_EFFECTS_H_
