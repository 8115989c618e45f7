#include "engine/warm_up.h"

#include <memory>
#include <optional>

#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/inline_emitter.h"
#include "engine/step_pipeline.h"

namespace rally {
namespace {

class LastFinish : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t>, std::string_view) override {}
  void OnFinish(const Finish& finish) override { finish_ = finish; }
  const std::optional<Finish>& finish() const { return finish_; }

 private:
  std::optional<Finish> finish_;
};

RequestSpec ShortRequest(int32_t tokens) {
  RequestSpec spec;
  spec.prompt_ids = {0};
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = tokens;
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

}  // namespace

absl::Status WarmUp(const EnginePlan& plan, Executor* executor, const Device* device,
                    const Vocabulary* vocabulary) {
  constexpr int32_t kTokens = 4;  // both streams twice
  EngineStats stats;
  SchedulerState state(executor->kv_blocks(), plan.slot_count, plan.block_count);
  Admission::Limits limits = plan.admission;
  limits.emitters = 1;
  Admission admission(limits, vocabulary, &MonotonicClock::Get());
  InlineEmitter emitter;
  SequenceTable sequences(&admission, &stats, &emitter, &state);
  StepPipeline pipeline({.admission = &admission,
                         .executor = executor,
                         .emitter = &emitter,
                         .stats = &stats,
                         .state = &state,
                         .sequences = &sequences,
                         .vocabulary = vocabulary,
                         .clock = &MonotonicClock::Get(),
                         .device = device,
                         .observer = nullptr},
                        plan.scheduler, plan.steps_in_flight, absl::Minutes(10));
  auto sink = std::make_shared<LastFinish>();
  RALLY_RETURN_IF_ERROR(admission.Submit(ShortRequest(kTokens), sink).status());
  bool progress = true;
  while (progress) {
    RALLY_ASSIGN_OR_RETURN(progress, pipeline.Turn());
  }
  if (!sink->finish().has_value()) return absl::InternalError("warm-up: no token was decoded");
  return sink->finish()->status;
}

}  // namespace rally
