#include "server/drain.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "spdlog/spdlog.h"

namespace rally {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
// For the last messages and trailers to go out once no engine has work.
constexpr absl::Duration kFlushTime = absl::Seconds(1);

// False once the operator is in a hurry or the time is up.
bool WaitUntilIdle(const InferenceService& service, absl::Time deadline, const HurryWait& hurry) {
  while (service.inflight() > 0) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration() || hurry(std::min(left, kPoll))) return false;
  }
  return true;
}

}  // namespace

void Drain(const DrainTimes& times, const HurryWait& hurry, const Router& router,
           InferenceService& service, GrpcServer& server) {
  spdlog::info("drain: not serving, {} calls in flight", service.inflight());
  server.StopServing();
  const bool hurried = times.delay > absl::ZeroDuration() && hurry(times.delay);
  service.StopAccepting();
  for (Engine* engine : router.engines()) engine->StopAccepting();
  const absl::Time deadline = hurried ? absl::Now() : absl::Now() + times.timeout;
  if (!WaitUntilIdle(service, deadline, hurry)) {
    spdlog::warn("drain: ending {} calls before their time", service.inflight());
  }
  // Ends what is left with UNAVAILABLE; the streams deliver that to their callers.
  for (Engine* engine : router.engines()) engine->Drain(absl::Now());
  server.Shutdown(absl::Now() + kFlushTime);
  spdlog::info("drain: done");
}

}  // namespace rally
