// A model from a path: the one entry point of the loaders.
#ifndef RALLY_ENGINE_MODEL_MODEL_LOADER_H_
#define RALLY_ENGINE_MODEL_MODEL_LOADER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace rally {

enum class LoadFormat {
  kAuto,   // a *.gguf file, or a directory with config.json and safetensors
  kDummy,  // random weights for the configuration of either
};

// The source keeps its files open; weights are read when rows are asked for. `dummy_seed` matters
// to kDummy only.
absl::StatusOr<ModelSource> OpenModel(const std::string& path, LoadFormat format,
                                      uint64_t dummy_seed);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_MODEL_LOADER_H_
