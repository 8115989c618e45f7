#include "engine/model/hf_rope.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/model/rope_frequencies.h"

namespace rally {
namespace {

constexpr double kDefaultTheta = 10000;

constexpr auto kKnownFields = std::to_array<absl::string_view>(
    {"attention_factor", "beta_fast", "beta_slow", "factor", "finetuned", "high_freq_factor",
     "low_freq_factor", "mscale", "mscale_all_dim", "original_max_position_embeddings",
     "partial_rotary_factor", "rope_theta", "rope_type", "truncate", "type"});

// rope_scaling before rope_parameters, as in transformers. Null where neither says anything.
const char* ScalingField(const FieldReader& fields) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* value = fields.Find(name);
    if (value != nullptr && !value->empty()) return name;
  }
  return nullptr;
}

void RefuseUnknown(FieldReader& rope) {
  for (const auto& [name, value] : rope.object().items()) {
    if (std::find(kKnownFields.begin(), kKnownFields.end(), name) == kKnownFields.end()) {
      rope.Unsupported(name, "is not supported");
    }
  }
  if (rope.Number("partial_rotary_factor", 1) != 1) {
    rope.Unsupported("partial_rotary_factor", "is not supported");
  }
}

double OriginalContext(FieldReader& fields, FieldReader& rope, const ModelConfig& config) {
  constexpr char kName[] = "original_max_position_embeddings";
  return (fields.Has(kName) ? fields : rope).Positive(kName, config.context_length);
}

void ReadLlama3(FieldReader& fields, FieldReader& rope, ModelConfig& config) {
  const Llama3Scaling scaling = {.factor = rope.Positive("factor"),
                                 .low_freq_factor = rope.Positive("low_freq_factor"),
                                 .high_freq_factor = rope.Positive("high_freq_factor"),
                                 .original_context = OriginalContext(fields, rope, config)};
  if (rope.status().ok() && scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.Invalid("high_freq_factor", "is not above low_freq_factor");
  }
  if (rope.status().ok()) ScaleLlama3(scaling, config.inv_freq);
}

void ReadYarn(FieldReader& fields, FieldReader& rope, double theta, ModelConfig& config) {
  YarnScaling scaling = {.beta_fast = rope.Positive("beta_fast", 32),
                         .beta_slow = rope.Positive("beta_slow", 1),
                         .original_context = OriginalContext(fields, rope, config),
                         .truncate = rope.Bool("truncate", true)};
  scaling.factor = rope.Positive("factor", config.context_length / scaling.original_context);
  double attention = YarnMscale(scaling.factor);
  const double mscale = rope.Number("mscale", 0), all_dim = rope.Number("mscale_all_dim", 0);
  if (mscale != 0 && all_dim != 0) {
    attention = YarnMscale(scaling.factor, mscale) / YarnMscale(scaling.factor, all_dim);
  }
  config.rope_scale = static_cast<float>(rope.Positive("attention_factor", attention));
  if (theta == 1) rope.Invalid("rope_theta", "of 1 has no YaRN");
  if (rope.status().ok()) ScaleYarn(scaling, theta, config.inv_freq);
}

}  // namespace

void ReadRope(FieldReader& fields, ModelConfig& config) {
  if (!fields.status().ok()) return;
  const char* place = ScalingField(fields);
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json& object = place == nullptr ? none : *fields.Find(place);
  if (!object.is_object()) return fields.Invalid(place, "is not an object");
  FieldReader rope(object, absl::StrCat(fields.where(), ": ", place == nullptr ? "rope" : place));
  RefuseUnknown(rope);
  const double theta = rope.Positive("rope_theta", fields.Positive("rope_theta", kDefaultTheta));
  const std::string type = rope.String("rope_type", rope.String("type", "default"));
  config.rotary_dim = config.head_dim;
  config.inv_freq = RopeFrequencies(theta, config.rotary_dim);
  if (type == "linear") {
    const double factor = rope.Positive("factor");
    for (float& f : config.inv_freq) f = static_cast<float>(f / factor);
  } else if (type == "llama3") {
    ReadLlama3(fields, rope, config);
  } else if (type == "yarn") {
    ReadYarn(fields, rope, theta, config);
  } else if (type != "default") {
    rope.Unsupported(rope.Has("rope_type") ? "rope_type" : "type",
                     absl::StrCat("'", type, "' is not supported"));
  }
  fields.Adopt(rope.status());
}

}  // namespace rally
