// A GGUF file as a ModelSource.
#ifndef RALLY_ENGINE_MODEL_GGUF_SOURCE_H_
#define RALLY_ENGINE_MODEL_GGUF_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace rally {

absl::StatusOr<ModelSource> OpenGgufModel(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_SOURCE_H_
