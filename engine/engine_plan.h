// From an EngineConfig and a model to every size that the engine's parts need, checked once.
#ifndef RALLY_ENGINE_ENGINE_PLAN_H_
#define RALLY_ENGINE_ENGINE_PLAN_H_

#include "absl/status/statusor.h"
#include "engine/admission.h"
#include "engine/engine_config.h"
#include "engine/executor.h"
#include "engine/model/decoder_model.h"
#include "engine/scheduler.h"

namespace rally {

struct EnginePlan {
  int32_t block_count = 0;  // usable KV blocks
  int32_t slot_count = 0;   // usable slots
  int32_t steps_in_flight = 0;
  SchedulerLimits scheduler;
  Admission::Limits admission;
  ExecutorOptions executor;
};

absl::StatusOr<EnginePlan> PlanEngine(const EngineConfig& config, const DecoderModel& model);

}  // namespace rally

#endif  // RALLY_ENGINE_ENGINE_PLAN_H_
