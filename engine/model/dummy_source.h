// Seeded random weights for a configuration without weights: for measuring.
#ifndef RALLY_ENGINE_MODEL_DUMMY_SOURCE_H_
#define RALLY_ENGINE_MODEL_DUMMY_SOURCE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace rally {

// Norm weights are 1; all else has mean 0 and standard deviation 0.02, close to normal (the sum of
// four uniform values). A value is a function of (seed, tensor name, position), so that any row can
// be made alone.
absl::StatusOr<ModelSource> MakeDummyModel(const ModelConfig& config, uint64_t seed);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_DUMMY_SOURCE_H_
