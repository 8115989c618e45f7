#include "engine/model/model_config_limits.h"

#include "absl/strings/str_cat.h"

namespace rally {

absl::Status CheckShapes(const ModelConfig& config, const std::string& where) {
  if (config.q_heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", config.q_heads,
                                                   " attention heads are no multiple of ",
                                                   config.kv_heads, " key-value heads"));
  }
  if (config.head_dim % 8 != 0 || config.head_dim > kMaxHeadDim) {
    return absl::UnimplementedError(absl::StrCat(where, ": head size ", config.head_dim,
                                                 " is no multiple of 8 up to ", kMaxHeadDim));
  }
  return absl::OkStatus();
}

}  // namespace rally
