// Decodes real tokens before the engine is handed out: readiness is never a promise alone.
#ifndef RALLY_ENGINE_WARM_UP_H_
#define RALLY_ENGINE_WARM_UP_H_

#include "absl/status/status.h"
#include "engine/engine_plan.h"
#include "engine/executor.h"
#include "engine/text/vocabulary.h"

namespace rally {

// Runs one short request through a pipeline of its own, so that no statistic counts it, and leaves
// the executor idle. An error says what the device or the model said.
absl::Status WarmUp(const EnginePlan& plan, Executor* executor, const Device* device,
                    const Vocabulary* vocabulary);

}  // namespace rally

#endif  // RALLY_ENGINE_WARM_UP_H_
