// Debian's Abseil has a string_view type of its own, which does not convert from the standard one.
#ifndef RALLY_ENGINE_TEXT_ABSL_VIEW_H_
#define RALLY_ENGINE_TEXT_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace rally {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_ABSL_VIEW_H_
