// From an EngineConfig and a model to every size that the engine's parts need, checked once.
#ifndef RALLY_ENGINE_ENGINE_PLAN_H_
#define RALLY_ENGINE_ENGINE_PLAN_H_

#include "absl/status/statusor.h"
#include "engine/admission.h"
#include "engine/engine_config.h"
#include "engine/executor.h"
#include "engine/model/decoder_model.h"
#include "engine/scheduler.h"
#include "kernels/device/device.h"

namespace rally {

struct EnginePlan {
  int32_t block_count = 0;  // usable KV blocks; what a growing pool may reach
  int32_t slot_count = 0;   // usable slots
  int32_t steps_in_flight = 0;
  SchedulerLimits scheduler;
  Admission::Limits admission;
  ExecutorOptions executor;
};

// `memory` is what the device has once the model is loaded.
absl::StatusOr<EnginePlan> PlanEngine(const EngineConfig& config, const DecoderModel& model,
                                      const DeviceMemory& memory);

}  // namespace rally

#endif  // RALLY_ENGINE_ENGINE_PLAN_H_
