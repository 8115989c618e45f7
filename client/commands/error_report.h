// How a failed call is told: one line for people, one JSON object for programs.
#ifndef RALLY_CLIENT_COMMANDS_ERROR_REPORT_H_
#define RALLY_CLIENT_COMMANDS_ERROR_REPORT_H_

#include <string>

#include "client/inference_client.h"

namespace rally {

// "error: INVALID_ARGUMENT (INVALID_FIELD): top_p: 2 is not in [0, 1]"
std::string ErrorLine(const CallResult& result);
// {"error": {"code", "message", "reason", "fields", "retry_delay_ms"}}, absent parts left out.
std::string ErrorJson(const CallResult& result);

}  // namespace rally

#endif  // RALLY_CLIENT_COMMANDS_ERROR_REPORT_H_
