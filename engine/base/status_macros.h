// Return-early macros for absl::Status; the Abseil of Debian 12 has none.
#ifndef RALLY_ENGINE_BASE_STATUS_MACROS_H_
#define RALLY_ENGINE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RALLY_CONCAT_INNER(a, b) a##b
#define RALLY_CONCAT(a, b) RALLY_CONCAT_INNER(a, b)

#define RALLY_RETURN_IF_ERROR(expr)                                                  \
  do {                                                                               \
    if (absl::Status rally_status = (expr); !rally_status.ok()) return rally_status; \
  } while (false)

#define RALLY_ASSIGN_OR_RETURN(lhs, expr) \
  RALLY_ASSIGN_OR_RETURN_IMPL(RALLY_CONCAT(rally_status_or_, __LINE__), lhs, expr)

#define RALLY_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).status();    \
  lhs = *std::move(tmp)

#endif  // RALLY_ENGINE_BASE_STATUS_MACROS_H_
