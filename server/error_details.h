// Errors as callers see them: absl::Status whose payloads are google.rpc details.
//
// An error is made where it is noticed, with its reason; it becomes a gRPC status at the very end.
#ifndef RALLY_SERVER_ERROR_DETAILS_H_
#define RALLY_SERVER_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rally {

inline constexpr absl::string_view kErrorDomain = "rally";

// INVALID_ARGUMENT, reason INVALID_FIELD, with a BadRequest that names the field.
absl::Status InvalidField(absl::string_view field, absl::string_view description);

// An error with `reason` (UPPER_SNAKE_CASE) as its ErrorInfo.
absl::Status ErrorWithReason(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message);
// The same for what may work later: callers are told to wait `retry_delay`.
absl::Status RetryableError(absl::StatusCode code, absl::string_view reason,
                            absl::string_view message, absl::Duration retry_delay);

// A status that the engine made: keeps code and message and gives it the details that its code
// calls for. Texts of INTERNAL, UNKNOWN and DATA_LOSS stay in the server.
absl::Status WithDefaultDetails(const absl::Status& status);

// What goes over the wire.
struct WireStatus {
  int code = 0;  // the number of grpc::StatusCode
  std::string message;
  std::string details;  // serialized google.rpc.Status
  // For the trailing metadata grpc-retry-pushback-ms.
  std::optional<int64_t> retry_pushback_ms;
};
WireStatus ToWireStatus(const absl::Status& status);

}  // namespace rally

#endif  // RALLY_SERVER_ERROR_DETAILS_H_
