#include "engine/text/json_view.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/text/absl_view.h"

namespace rally {
namespace {

const nlohmann::json& Null() {
  static const nlohmann::json null;
  return null;
}

}  // namespace

JsonView JsonView::operator[](std::string_view name) const {
  const std::string where =
      absl::StrCat(where_, absl::EndsWith(where_, ":") ? " " : ".", AbslView(name));
  if (!value_->is_object()) return JsonView(Null(), where);
  const auto found = value_->find(std::string(name));
  return JsonView(found == value_->end() ? Null() : *found, where);
}

absl::StatusOr<std::string> JsonView::String() const {
  if (!value_->is_string()) return Error("a string was expected");
  return value_->get<std::string>();
}

absl::StatusOr<int64_t> JsonView::Integer() const {
  const bool fits = value_->is_number_unsigned() ? value_->get<uint64_t>() <= INT64_MAX
                                                 : value_->is_number_integer();
  if (!fits) return Error("an integer was expected");
  return value_->get<int64_t>();
}

absl::StatusOr<std::vector<JsonView>> JsonView::Array() const {
  if (!value_->is_array()) return Error("an array was expected");
  std::vector<JsonView> items;
  items.reserve(value_->size());
  for (const nlohmann::json& item : *value_) {
    items.emplace_back(item, absl::StrCat(where_, "[", items.size(), "]"));
  }
  return items;
}

absl::StatusOr<std::vector<std::pair<std::string, JsonView>>> JsonView::Object() const {
  if (!value_->is_object()) return Error("an object was expected");
  std::vector<std::pair<std::string, JsonView>> fields;
  fields.reserve(value_->size());
  for (const auto& [name, value] : value_->items()) {
    fields.emplace_back(name, JsonView(value, absl::StrCat(where_, "[\"", name, "\"]")));
  }
  return fields;
}

absl::StatusOr<bool> JsonView::BoolOr(bool if_null) const {
  if (is_null()) return if_null;
  if (!value_->is_boolean()) return Error("true or false was expected");
  return value_->get<bool>();
}

absl::StatusOr<std::string> JsonView::StringOr(std::string_view if_null) const {
  if (is_null()) return std::string(if_null);
  return String();
}

absl::Status JsonView::Error(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(where_, ": ", AbslView(what)));
}

absl::Status JsonView::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(where_, ": ", AbslView(what), " is not supported"));
}

}  // namespace rally
