// config.json and generation_config.json of a Hugging Face directory.
#ifndef RALLY_ENGINE_MODEL_HF_CONFIG_H_
#define RALLY_ENGINE_MODEL_HF_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model_config.h"

namespace rally {

// Absent fields mean what they mean to transformers. Refuses, with the field's name, what this
// engine would compute differently: another model_type, and the fields of a list of known ones that
// change the mathematics (quantisation, experts, partial rotation, logit scales, ...). Fields on no
// list are descriptive or concern training.
absl::StatusOr<ModelConfig> ReadHuggingFaceConfig(const std::string& directory);

// The same from text; `generation_json` is empty where there is no such file.
absl::StatusOr<ModelConfig> ParseHuggingFaceConfig(absl::string_view config_json,
                                                   absl::string_view generation_json,
                                                   const std::string& directory);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_HF_CONFIG_H_
