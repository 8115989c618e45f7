// What the server itself counts, beside the engines' EngineStats. No locks; any thread.
#ifndef RALLY_SERVER_SERVER_STATS_H_
#define RALLY_SERVER_SERVER_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "engine/engine_stats.h"

namespace rally {

// How a Generate call ended. Each call counts for exactly one, so that the sum over all of them
// equals the calls received once none is in flight.
enum class Outcome {
  kEos,
  kStopToken,
  kStopString,
  kLength,
  kCancelled,            // by the caller, who may just have gone
  kDeadline,             // the caller's deadline passed, before or after acceptance
  kSlowReader,           // no write completed for the slow reader timeout
  kFailed,               // after acceptance: rank lost, drain deadline, bad numbers
  kRejectedInvalid,      // can never work: a field, the model's name, the prompt's length
  kRejectedOverload,     // may work later: in-flight cap, queue full
  kRejectedUnavailable,  // draining, or no rank is up
};
inline constexpr std::array<std::string_view, 11> kOutcomeLabels = {"eos",
                                                                    "stop_token",
                                                                    "stop_string",
                                                                    "length",
                                                                    "cancelled",
                                                                    "deadline",
                                                                    "slow_reader",
                                                                    "failed",
                                                                    "rejected_invalid",
                                                                    "rejected_overload",
                                                                    "rejected_unavailable"};

struct ServerStats {
  Counter requests_received;  // Generate calls, refused ones included
  std::array<Counter, kOutcomeLabels.size()> requests_ended;  // by Outcome
  std::atomic<int64_t> inflight{0};                           // calls of any method with work to do

  void CountEnd(Outcome outcome) { requests_ended[static_cast<size_t>(outcome)].Add(); }
};

}  // namespace rally

#endif  // RALLY_SERVER_SERVER_STATS_H_
