// A JSON value together with the place it came from, so that every error can name it.
#ifndef RALLY_ENGINE_TEXT_JSON_VIEW_H_
#define RALLY_ENGINE_TEXT_JSON_VIEW_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/checked_json.h"

namespace rally {

// Of tokenizer files: the largest vocabularies and merge lists have some 2 million values.
inline constexpr JsonLimits kTokenizerJsonLimits = {.max_depth = 32, .max_values = 8'000'000};

// A view: the document outlives it. Absent fields and null are the same.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  // "file: a.b[3]".
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  const nlohmann::json& value() const { return *value_; }

  // A null view if there is no such field, or this is no object.
  JsonView operator[](std::string_view name) const;

  // Errors name the place and the type that was expected.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<int64_t> Integer() const;
  absl::StatusOr<std::vector<JsonView>> Array() const;
  absl::StatusOr<std::vector<std::pair<std::string, JsonView>>> Object() const;
  absl::StatusOr<bool> BoolOr(bool if_null) const;
  absl::StatusOr<std::string> StringOr(std::string_view if_null) const;

  absl::Status Error(std::string_view what) const;        // INVALID_ARGUMENT
  absl::Status Unsupported(std::string_view what) const;  // UNIMPLEMENTED

 private:
  const nlohmann::json* value_;
  std::string where_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_JSON_VIEW_H_
