// Typed, range-checked fields of a configuration (config.json, or GGUF metadata as JSON).
#ifndef RALLY_ENGINE_MODEL_FIELD_READER_H_
#define RALLY_ENGINE_MODEL_FIELD_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace rally {

// The first error sticks and names file and field, so that a configuration reads as a list of
// assignments with one check at the end. A null counts as absent. An absent field without a
// fallback is an error; after an error a getter returns its fallback or zero.
class FieldReader {
 public:
  // `object` must outlive the reader; `where` (the file) starts every message.
  FieldReader(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  bool Has(absl::string_view field) const { return Find(field) != nullptr; }
  // Null where absent.
  const nlohmann::json* Find(absl::string_view field) const;
  const nlohmann::json& object() const { return object_; }
  const std::string& where() const { return where_; }

  int32_t Int(absl::string_view field, int32_t min, int32_t max,
              std::optional<int32_t> fallback = std::nullopt);
  // Finite.
  double Number(absl::string_view field, std::optional<double> fallback = std::nullopt);
  // Finite and > 0.
  double Positive(absl::string_view field, std::optional<double> fallback = std::nullopt);
  bool Bool(absl::string_view field, bool fallback);
  std::string String(absl::string_view field, std::optional<std::string> fallback = std::nullopt);
  // One token id or a list of them, each in [0, vocab_size); empty where absent.
  std::vector<int32_t> TokenIds(absl::string_view field, int32_t vocab_size);

  void Invalid(absl::string_view field, absl::string_view message);      // INVALID_ARGUMENT
  void Unsupported(absl::string_view field, absl::string_view message);  // UNIMPLEMENTED
  // The status of a reader of a part of this object.
  void Adopt(const absl::Status& part) { status_.Update(part); }
  const absl::Status& status() const { return status_; }

 private:
  void Absent(absl::string_view field) { Invalid(field, "is missing"); }
  bool ReadTokenId(absl::string_view field, const nlohmann::json& value, int32_t vocab_size,
                   std::vector<int32_t>& ids);

  const nlohmann::json& object_;
  const std::string where_;
  absl::Status status_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_FIELD_READER_H_
