// Bounds of a ModelConfig: far above every model served here, and low enough that no product of two
// of them overflows where it is used.
#ifndef RALLY_ENGINE_MODEL_MODEL_CONFIG_LIMITS_H_
#define RALLY_ENGINE_MODEL_MODEL_CONFIG_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model_config.h"

namespace rally {

inline constexpr int32_t kMaxLayers = 1024;
inline constexpr int32_t kMaxWidth = 1 << 18;
inline constexpr int32_t kMaxFfnWidth = 1 << 20;
inline constexpr int32_t kMaxHeads = 4096;
inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxVocabSize = 1 << 22;
inline constexpr int32_t kMaxContextLength = 1 << 24;

// What the kernels ask of the shapes. `where` (the file) starts the message.
absl::Status CheckShapes(const ModelConfig& config, const std::string& where);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_MODEL_CONFIG_LIMITS_H_
