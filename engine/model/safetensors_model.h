// All tensors of a Hugging Face directory: one model.safetensors, or the shards of an index.
#ifndef RALLY_ENGINE_MODEL_SAFETENSORS_MODEL_H_
#define RALLY_ENGINE_MODEL_SAFETENSORS_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/tensor_set.h"

namespace rally {

// Where there is a model.safetensors.index.json it alone says which files are read. Shards are
// plain file names in `directory`; a link may lead on to the blobs folder of a Hugging Face cache
// and nowhere else.
absl::StatusOr<TensorSet> OpenSafetensorsModel(const std::string& directory);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_SAFETENSORS_MODEL_H_
