// Exit status of the rally program, by class of gRPC status.
#ifndef RALLY_CLIENT_EXIT_CODES_H_
#define RALLY_CLIENT_EXIT_CODES_H_

#include "absl/status/status.h"

namespace rally {

enum ExitCode : int {
  kExitOk = 0,
  kExitOther = 1,        // INTERNAL, UNKNOWN, UNIMPLEMENTED, ...
  kExitUsage = 2,        // the command line
  kExitInvalid = 3,      // the request: INVALID_ARGUMENT, NOT_FOUND, ...
  kExitTryLater = 4,     // UNAVAILABLE, RESOURCE_EXHAUSTED
  kExitDeadline = 5,     // DEADLINE_EXCEEDED
  kExitCancelled = 130,  // CANCELLED, as for a program that Ctrl-C ended
};

inline constexpr const char* kExitCodesHelp =
    "Exit status: 0 success, 1 other errors, 2 wrong usage, 3 the request is invalid,\n"
    "4 overloaded or unavailable (try later), 5 deadline exceeded, 130 cancelled.";

inline ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return kExitInvalid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return kExitTryLater;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitDeadline;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    default:
      return kExitOther;
  }
}

}  // namespace rally

#endif  // RALLY_CLIENT_EXIT_CODES_H_
