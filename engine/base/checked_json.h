// JSON from files that nobody has checked.
#ifndef RALLY_ENGINE_BASE_CHECKED_JSON_H_
#define RALLY_ENGINE_BASE_CHECKED_JSON_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace rally {

struct JsonLimits {
  size_t max_depth = 16;
  size_t max_values = 2'000'000;  // all values together, keys not counted
};

// The object in `text`. Refuses what is no object, duplicate keys and what is beyond the limits;
// messages start with `file`.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                               const JsonLimits& limits = {});

}  // namespace rally

#endif  // RALLY_ENGINE_BASE_CHECKED_JSON_H_
