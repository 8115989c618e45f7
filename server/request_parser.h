// Message to RequestSpec. Pure: no clock, no tokenizer, no random numbers. Every count is checked
// before any work that grows with it.
#ifndef RALLY_SERVER_REQUEST_PARSER_H_
#define RALLY_SERVER_REQUEST_PARSER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model_config.h"
#include "engine/request.h"
#include "engine/text/tokenizer.h"

namespace rally {

namespace v1 {
class DetokenizeRequest;
class GenerateRequest;
class TokenizeRequest;
}  // namespace v1

inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopStringBytes = 256;
inline constexpr int kMaxStopTokenIds = 16;
inline constexpr int kMaxRequestIdBytes = 128;
inline constexpr int32_t kDefaultMaxTokens = 256;
inline constexpr float kMaxTemperature = 100;

// The model's own wishes, where its generation_config.json says anything within the API's ranges.
struct SamplingDefaults {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
};
SamplingDefaults SamplingDefaultsOf(const ModelConfig& config);

struct ParserLimits {
  std::string model_name;
  int32_t vocab_size = 0;
  int32_t context_tokens = 0;
  int64_t max_prompt_bytes = int64_t{1} << 20;
  SamplingDefaults defaults;
};

struct ParsedRequest {
  RequestSpec spec;                 // without arrival and deadline; prompt_ids empty for a text
  std::optional<std::string> text;  // to be encoded with `encode`
  EncodeOptions encode;
  bool has_seed = false;
};

absl::StatusOr<ParsedRequest> ParseGenerateRequest(const v1::GenerateRequest& request,
                                                   const ParserLimits& limits);
// `n_tokens` of a prompt must be in [1, context); `field` is the prompt's path for the error.
absl::Status CheckPromptTokens(int64_t n_tokens, absl::string_view field,
                               const ParserLimits& limits);
absl::Status CheckTokenizeRequest(const v1::TokenizeRequest& request, const ParserLimits& limits);
absl::Status CheckDetokenizeRequest(const v1::DetokenizeRequest& request,
                                    const ParserLimits& limits);

}  // namespace rally

#endif  // RALLY_SERVER_REQUEST_PARSER_H_
