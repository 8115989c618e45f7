#include "engine/model/field_reader.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rally {
namespace {

// The value as an integer, where it is one. Whole-numbered floats do not count.
std::optional<int64_t> AsInteger(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t n = value.get<uint64_t>();
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(n);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

}  // namespace

const nlohmann::json* FieldReader::Find(absl::string_view field) const {
  const auto it = object_.find(std::string(field));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

int32_t FieldReader::Int(absl::string_view field, int32_t min, int32_t max,
                         std::optional<int32_t> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (!fallback) Absent(field);
    return fallback.value_or(0);
  }
  const std::optional<int64_t> n = AsInteger(*value);
  if (!n || *n < min || *n > max) {
    Invalid(field, absl::StrCat("is not an integer from ", min, " to ", max));
    return fallback.value_or(0);
  }
  return static_cast<int32_t>(*n);
}

double FieldReader::Number(absl::string_view field, std::optional<double> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (!fallback) Absent(field);
    return fallback.value_or(0);
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    Invalid(field, "is not a finite number");
    return fallback.value_or(0);
  }
  return value->get<double>();
}

double FieldReader::Positive(absl::string_view field, std::optional<double> fallback) {
  const double value = Number(field, fallback);
  if (status_.ok() && value <= 0) Invalid(field, "is not positive");
  return value;
}

bool FieldReader::Bool(absl::string_view field, bool fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    Invalid(field, "is not true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string FieldReader::String(absl::string_view field, std::optional<std::string> fallback) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) {
    if (!fallback) Absent(field);
    return fallback.value_or("");
  }
  if (!value->is_string()) {
    Invalid(field, "is not a string");
    return fallback.value_or("");
  }
  return value->get<std::string>();
}

std::vector<int32_t> FieldReader::TokenIds(absl::string_view field, int32_t vocab_size) {
  std::vector<int32_t> ids;
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return ids;
  if (!value->is_array()) {
    ReadTokenId(field, *value, vocab_size, ids);
    return ids;
  }
  for (const nlohmann::json& id : *value) {
    if (!ReadTokenId(field, id, vocab_size, ids)) break;
  }
  return ids;
}

bool FieldReader::ReadTokenId(absl::string_view field, const nlohmann::json& value,
                              int32_t vocab_size, std::vector<int32_t>& ids) {
  const std::optional<int64_t> id = AsInteger(value);
  if (!id || *id < 0 || *id >= vocab_size) {
    Invalid(field, absl::StrCat("names a token id outside the vocabulary of ", vocab_size));
    return false;
  }
  ids.push_back(static_cast<int32_t>(*id));
  return true;
}

void FieldReader::Invalid(absl::string_view field, absl::string_view message) {
  status_.Update(absl::InvalidArgumentError(absl::StrCat(where_, ": ", field, " ", message)));
}

void FieldReader::Unsupported(absl::string_view field, absl::string_view message) {
  status_.Update(absl::UnimplementedError(absl::StrCat(where_, ": ", field, " ", message)));
}

}  // namespace rally
