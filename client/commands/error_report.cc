#include "client/commands/error_report.h"

#include "nlohmann/json.hpp"

namespace rally {
namespace {

std::string CodeName(const CallResult& result) {
  return absl::StatusCodeToString(result.status.code());
}

}  // namespace

std::string ErrorLine(const CallResult& result) {
  std::string line = "error: " + CodeName(result);
  if (!result.reason.empty()) line += " (" + result.reason + ")";
  line += ": " + std::string(result.status.message());
  if (result.retry_delay) line += "; retry in " + absl::FormatDuration(*result.retry_delay);
  return line;
}

std::string ErrorJson(const CallResult& result) {
  nlohmann::json error = {{"code", CodeName(result)},
                          {"message", std::string(result.status.message())}};
  if (!result.reason.empty()) error["reason"] = result.reason;
  for (const auto& [field, description] : result.field_violations) {
    error["fields"].push_back({{"field", field}, {"description", description}});
  }
  if (result.retry_delay) {
    error["retry_delay_ms"] = absl::ToInt64Milliseconds(*result.retry_delay);
  }
  return nlohmann::json{{"error", error}}.dump(-1, ' ', false,
                                               nlohmann::json::error_handler_t::replace);
}

}  // namespace rally
