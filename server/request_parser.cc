#include "server/request_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "rally/v1/generation.pb.h"
#include "server/error_details.h"

namespace rally {
namespace {

// Written so that NaN fails; adding zero turns -0 into 0.
absl::StatusOr<float> InRange(float value, float lo, float hi, absl::string_view field) {
  if (!(value >= lo && value <= hi)) {
    return InvalidField(field, absl::StrFormat("%g is not in [%g, %g]", value, lo, hi));
  }
  return value + 0.0f;
}

absl::Status CheckModel(const std::string& model, const ParserLimits& limits) {
  if (model.empty() || model == limits.model_name) return absl::OkStatus();
  // The caller's spelling is not repeated: it may be of any length.
  return ErrorWithReason(absl::StatusCode::kNotFound, "MODEL_NOT_FOUND",
                         absl::StrCat("model: only \"", limits.model_name, "\" is served here"));
}

absl::Status CheckRequestId(const std::string& id) {
  if (id.size() > kMaxRequestIdBytes) {
    return InvalidField("request_id", absl::StrCat(id.size(), " bytes, at most ",
                                                   kMaxRequestIdBytes, " are allowed"));
  }
  if (!std::all_of(id.begin(), id.end(), [](char c) { return c >= 0x20 && c <= 0x7e; })) {
    return InvalidField("request_id", "only printable ASCII is allowed");
  }
  return absl::OkStatus();
}

absl::Status CheckTokenId(int32_t id, absl::string_view field, int index,
                          const ParserLimits& limits) {
  if (id >= 0 && id < limits.vocab_size) return absl::OkStatus();
  return InvalidField(absl::StrCat(field, "[", index, "]"),
                      absl::StrCat(id, " is not in [0, ", limits.vocab_size, ")"));
}

absl::Status CheckTextBytes(const std::string& text, absl::string_view field,
                            const ParserLimits& limits) {
  if (static_cast<int64_t>(text.size()) <= limits.max_prompt_bytes) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(text.size(), " bytes, at most ", limits.max_prompt_bytes,
                                          " are allowed"));
}

absl::Status ParsePrompt(const v1::GenerateRequest& request, const ParserLimits& limits,
                         ParsedRequest& out) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (request.text().empty()) return InvalidField("text", "the prompt is empty");
      RALLY_RETURN_IF_ERROR(CheckTextBytes(request.text(), "text", limits));
      out.text = request.text();
      out.encode.add_special_tokens =
          !request.has_add_special_tokens() || request.add_special_tokens();
      out.encode.parse_special_tokens = request.parse_special_tokens();
      return absl::OkStatus();
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = request.token_ids().ids();
      RALLY_RETURN_IF_ERROR(CheckPromptTokens(ids.size(), "token_ids", limits));
      for (int i = 0; i < ids.size(); ++i) {
        RALLY_RETURN_IF_ERROR(CheckTokenId(ids[i], "token_ids.ids", i, limits));
      }
      out.spec.prompt_ids.assign(ids.begin(), ids.end());
      return absl::OkStatus();
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "text or token_ids is required");
}

absl::Status ParseSampling(const v1::GenerateRequest& request, const SamplingDefaults& defaults,
                           SamplingParams& out) {
  out.temperature = defaults.temperature;
  out.top_k = defaults.top_k;
  out.top_p = defaults.top_p;
  if (request.has_temperature()) {
    RALLY_ASSIGN_OR_RETURN(out.temperature,
                           InRange(request.temperature(), 0, kMaxTemperature, "temperature"));
  }
  if (request.has_top_k()) {
    if (request.top_k() < 0) {
      return InvalidField("top_k", absl::StrCat(request.top_k(), " is negative; 0 is off"));
    }
    out.top_k = request.top_k();
  }
  if (request.has_top_p()) {
    RALLY_ASSIGN_OR_RETURN(out.top_p, InRange(request.top_p(), 0, 1, "top_p"));
    if (out.top_p == 0) return InvalidField("top_p", "0 is not in (0, 1]; 1 is off");
  }
  if (request.has_min_p()) {
    RALLY_ASSIGN_OR_RETURN(out.min_p, InRange(request.min_p(), 0, 1, "min_p"));
  }
  out.seed = request.seed();
  return absl::OkStatus();
}

absl::Status ParseLengths(const v1::GenerateRequest& request, StopParams& out) {
  out.max_tokens = request.has_max_tokens() ? request.max_tokens() : kDefaultMaxTokens;
  if (out.max_tokens < 1) {
    return InvalidField("max_tokens", absl::StrCat(out.max_tokens, " is less than 1"));
  }
  out.min_tokens = request.has_min_tokens() ? request.min_tokens() : 0;
  if (out.min_tokens < 0 || out.min_tokens > out.max_tokens) {
    return InvalidField(
        "min_tokens",
        absl::StrCat(out.min_tokens, " is not in [0, max_tokens = ", out.max_tokens, "]"));
  }
  return absl::OkStatus();
}

absl::Status ParseStops(const v1::GenerateRequest& request, const ParserLimits& limits,
                        StopParams& out) {
  const auto& strings = request.stop_strings();
  if (strings.size() > kMaxStopStrings) {
    return InvalidField("stop_strings", absl::StrCat(strings.size(), " strings, at most ",
                                                     kMaxStopStrings, " are allowed"));
  }
  for (int i = 0; i < strings.size(); ++i) {
    if (strings[i].empty() || strings[i].size() > kMaxStopStringBytes) {
      return InvalidField(
          absl::StrCat("stop_strings[", i, "]"),
          absl::StrCat(strings[i].size(), " bytes, 1 to ", kMaxStopStringBytes, " are allowed"));
    }
  }
  const auto& ids = request.stop_token_ids();
  if (ids.size() > kMaxStopTokenIds) {
    return InvalidField("stop_token_ids", absl::StrCat(ids.size(), " ids, at most ",
                                                       kMaxStopTokenIds, " are allowed"));
  }
  for (int i = 0; i < ids.size(); ++i) {
    RALLY_RETURN_IF_ERROR(CheckTokenId(ids[i], "stop_token_ids", i, limits));
  }
  out.strings.assign(strings.begin(), strings.end());
  out.token_ids.assign(ids.begin(), ids.end());
  out.ignore_eos = request.ignore_eos();
  return absl::OkStatus();
}

}  // namespace

SamplingDefaults SamplingDefaultsOf(const ModelConfig& config) {
  SamplingDefaults defaults;
  if (config.has_temperature && InRange(config.temperature, 0, kMaxTemperature, "").ok()) {
    defaults.temperature = config.temperature;
  }
  if (config.has_top_k && config.top_k >= 0) defaults.top_k = config.top_k;
  if (config.has_top_p && config.top_p > 0 && config.top_p <= 1) defaults.top_p = config.top_p;
  return defaults;
}

absl::StatusOr<ParsedRequest> ParseGenerateRequest(const v1::GenerateRequest& request,
                                                   const ParserLimits& limits) {
  ParsedRequest parsed;
  RALLY_RETURN_IF_ERROR(CheckModel(request.model(), limits));
  RALLY_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  RALLY_RETURN_IF_ERROR(ParseSampling(request, limits.defaults, parsed.spec.sampling));
  RALLY_RETURN_IF_ERROR(ParseLengths(request, parsed.spec.stop));
  RALLY_RETURN_IF_ERROR(ParseStops(request, limits, parsed.spec.stop));
  RALLY_RETURN_IF_ERROR(ParsePrompt(request, limits, parsed));
  parsed.spec.request_id = request.request_id();
  parsed.has_seed = request.has_seed();
  return parsed;
}

absl::Status CheckPromptTokens(int64_t n_tokens, absl::string_view field,
                               const ParserLimits& limits) {
  if (n_tokens < 1) return InvalidField(field, "the prompt has no tokens");
  if (n_tokens >= limits.context_tokens) {
    return InvalidField(
        field, absl::StrCat("a prompt of ", n_tokens, " tokens leaves no room in a context of ",
                            limits.context_tokens));
  }
  return absl::OkStatus();
}

absl::Status CheckTokenizeRequest(const v1::TokenizeRequest& request, const ParserLimits& limits) {
  RALLY_RETURN_IF_ERROR(CheckModel(request.model(), limits));
  return CheckTextBytes(request.text(), "text", limits);
}

absl::Status CheckDetokenizeRequest(const v1::DetokenizeRequest& request,
                                    const ParserLimits& limits) {
  RALLY_RETURN_IF_ERROR(CheckModel(request.model(), limits));
  const auto& ids = request.token_ids();
  if (ids.size() > limits.context_tokens) {
    return InvalidField("token_ids",
                        absl::StrCat(ids.size(), " ids, the context has ", limits.context_tokens));
  }
  for (int i = 0; i < ids.size(); ++i) {
    RALLY_RETURN_IF_ERROR(CheckTokenId(ids[i], "token_ids", i, limits));
  }
  return absl::OkStatus();
}

}  // namespace rally
