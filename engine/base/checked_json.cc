#include "engine/base/checked_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rally {
namespace {

using nlohmann::json;

// Builds the tree from parser events, so that the limits hold before memory is taken and a second
// value for a key is seen (the library's own tree builder keeps the last one silently).
class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  explicit TreeBuilder(const JsonLimits& limits) : limits_(limits) {}

  json& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(std::size_t) override { return Open(json::object()); }
  bool start_array(std::size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return Fail(absl::StrCat("key '", name, "' appears twice"));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return Fail(absl::StrCat("not JSON at byte ", position));
  }

 private:
  json* Add(json value) {
    if (++values_ > limits_.max_values) {
      Fail(absl::StrCat("more than ", limits_.max_values, " values"));
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Open(json container) {
    if (open_.size() >= limits_.max_depth) {
      return Fail(absl::StrCat("nested deeper than ", limits_.max_depth));
    }
    json* added = Add(std::move(container));
    if (added == nullptr) return false;
    // Stays valid: only the innermost open container grows.
    open_.push_back(added);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  const JsonLimits limits_;
  json root_;
  std::vector<json*> open_;
  std::string key_;
  size_t values_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                               const JsonLimits& limits) {
  TreeBuilder builder(limits);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", builder.error()));
  }
  if (!builder.root().is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not a JSON object"));
  }
  return std::move(builder.root());
}

}  // namespace rally
