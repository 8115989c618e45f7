#include "engine/step_effects.h"

#include <algorithm>
#include <string_view>

#include "engine/base/plant.h"

namespace rally {
namespace {

End StopIdEnd(const Sequence& s, int32_t token) {
  const auto& own = s.spec.stop.token_ids;
  End end;
  end.reason = std::find(own.begin(), own.end(), token) != own.end() ? FinishReason::kStopToken
                                                                     : FinishReason::kEos;
  end.stop_token_id = token;
  end.final_bytes = s.text_bytes;  // a stop token adds no text
  return end;
}

// The first match that may end the sequence: those before min_tokens are passed over.
StopMatcher::Result MatchStop(const Sequence& s, std::string_view bytes) {
  const bool may_stop = s.output_count() + 1 >= s.spec.stop.min_tokens;
  StopMatcher::Result match = s.stop_matcher->Advance(s.stop_state, bytes);
  while (match.matched && !may_stop) {
    bytes.remove_prefix(match.match_end);
    match = s.stop_matcher->Advance(match.next, bytes);
  }
  return match;
}

// Text, stop strings and the length limit of one new token.
void ResolveText(const Sequence& s, std::string_view bytes, RowEffect* effect) {
  effect->text_bytes = s.text_bytes + static_cast<int64_t>(bytes.size());
  effect->sendable_bytes = effect->text_bytes;
  if (s.stop_matcher != nullptr) {
    const StopMatcher::Result match = MatchStop(s, bytes);
    effect->stop_state = match.next;
    effect->sendable_bytes -= s.stop_matcher->held_bytes(match.next);
    if (match.matched) {
      effect->end = End{.reason = FinishReason::kStopString,
                        .stop_string_index = match.string_index,
                        .final_bytes = s.text_bytes + match.match_begin};
      effect->sendable_bytes = std::min(effect->sendable_bytes, effect->end->final_bytes);
      return;
    }
  }
  if (s.output_count() + 1 == s.output_limit) {
    effect->end = End{.reason = FinishReason::kLength, .final_bytes = effect->text_bytes};
  }
}

void ResolveSample(const PlanRow& row, const OutcomeRow& outcome, const Vocabulary& vocabulary,
                   RowEffect* effect) {
  const Sequence& s = *row.sequence;
  if (outcome.generation != row.generation || outcome.slot != s.slot) {
    effect->kind = RowEffect::Kind::kStale;
    return;
  }
  if ((outcome.flags & kOutcomeNotFinite) != 0) {
    effect->kind = RowEffect::Kind::kFailed;
    effect->end = End{.reason = FinishReason::kFailed,
                      .status = absl::InternalError("the model's logits are not finite numbers"),
                      .final_bytes = s.text_bytes};
    return;
  }
  effect->kind = RowEffect::Kind::kToken;
  effect->token = outcome.token;
  if ((outcome.flags & kOutcomeStopId) != 0) {
    effect->text_bytes = s.text_bytes;
    effect->sendable_bytes = s.text_bytes;
    effect->end = StopIdEnd(s, outcome.token);
    return;
  }
  ResolveText(s, vocabulary.TextBytes(outcome.token), effect);
}

}  // namespace

void Resolve(const StepPlan& plan, const StepOutcomeView& outcome, const Vocabulary& vocabulary,
             StepEffects* effects) {
  effects->rows.clear();
  int32_t sample = 0;
  for (const PlanRow& row : plan.rows) {
    RowEffect effect;
    effect.sequence = row.sequence;
    effect.confirmed = row.end();
    if (row.sequence->state == SequenceState::kEnded) {
      effect.kind = RowEffect::Kind::kSurplus;
      sample += row.samples ? 1 : 0;
    } else if (row.samples) {
      ResolveSample(row, outcome.rows[sample++], vocabulary, &effect);
    }
    effects->rows.push_back(effect);
  }
}

}  // namespace rally
