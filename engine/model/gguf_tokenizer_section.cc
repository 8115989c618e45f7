#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/model/field_reader.h"
#include "engine/model/gguf_config.h"
#include "engine/model/model_config_limits.h"

namespace rally {
namespace {

using nlohmann::json;

// An array of T, or empty where absent.
template <typename T>
std::vector<T> List(FieldReader& fields, absl::string_view key, bool (*is_value)(const json&)) {
  std::vector<T> list;
  const json* array = fields.Find(key);
  if (array == nullptr) return list;
  if (!array->is_array()) {
    fields.Invalid(key, "is not an array");
    return list;
  }
  list.reserve(array->size());
  for (const json& value : *array) {
    if (!is_value(value)) {
      fields.Invalid(key, "has an element of another type");
      break;
    }
    list.push_back(value.get<T>());
  }
  return list;
}

bool IsString(const json& value) { return value.is_string(); }
bool IsFloat(const json& value) { return value.is_number(); }
bool IsInt32(const json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= INT32_MIN &&
         value.get<int64_t>() <= INT32_MAX;
}

}  // namespace

absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const GgufFile& gguf) {
  FieldReader fields(gguf.metadata, gguf.file->path());
  const auto key = [](absl::string_view name) { return absl::StrCat("tokenizer.ggml.", name); };
  GgufVocabulary vocabulary;
  vocabulary.model = fields.String(key("model"));
  vocabulary.pre = fields.String(key("pre"), "");
  vocabulary.tokens = List<std::string>(fields, key("tokens"), IsString);
  vocabulary.scores = List<float>(fields, key("scores"), IsFloat);
  vocabulary.token_types = List<int32_t>(fields, key("token_type"), IsInt32);
  vocabulary.merges = List<std::string>(fields, key("merges"), IsString);
  const auto id = [&](absl::string_view name) {
    return fields.Int(key(name), 0, kMaxVocabSize, -1);
  };
  vocabulary.bos_id = id("bos_token_id");
  vocabulary.eos_id = id("eos_token_id");
  vocabulary.unknown_id = id("unknown_token_id");
  vocabulary.has_add_bos = fields.Has(key("add_bos_token"));
  vocabulary.add_bos = fields.Bool(key("add_bos_token"), false);
  vocabulary.add_eos = fields.Bool(key("add_eos_token"), false);
  vocabulary.has_add_space_prefix = fields.Has(key("add_space_prefix"));
  vocabulary.add_space_prefix = fields.Bool(key("add_space_prefix"), false);
  RALLY_RETURN_IF_ERROR(fields.status());
  return vocabulary;
}

}  // namespace rally
