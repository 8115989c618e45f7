#include "tests/testing/fake_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/clock.h"

namespace rally {

FakeEngine::FakeEngine(Options options)
    : options_(std::move(options)), thread_([this] { Work(); }) {
  stats_.rank_up.Set(1);
}

FakeEngine::~FakeEngine() {
  stop_.store(true);
  thread_.join();
  EndAll(absl::UnavailableError("the engine is gone"));
}

absl::StatusOr<RequestKey> FakeEngine::Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) {
  const std::lock_guard lock(mutex_);
  if (!up() || !accepting_) return absl::UnavailableError("the rank takes no requests");
  if (requests_.size() >= options_.max_live) return absl::ResourceExhaustedError("queue full");
  accepted_.push_back(spec);
  stats_.requests_accepted.Add();
  requests_[next_key_] = Request{std::move(spec), std::move(sink)};
  return next_key_++;
}

void FakeEngine::Cancel(RequestKey key, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  const auto it = requests_.find(key);
  if (it == requests_.end()) return;
  it->second.cancelled = true;
  it->second.cancel_reason = reason;
}

void FakeEngine::StopAccepting() {
  const std::lock_guard lock(mutex_);
  accepting_ = false;
}

void FakeEngine::Drain(absl::Time deadline) {
  while (live() > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EndAll(absl::UnavailableError("the server shut down before the request ended"));
}

int64_t FakeEngine::outstanding_tokens() const {
  const int64_t tokens = outstanding_override_.load();
  return tokens >= 0 ? tokens : live();
}

absl::Status FakeEngine::status() const {
  return up() ? absl::OkStatus() : absl::UnavailableError("the fake rank was lost");
}

void FakeEngine::SetPaused(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
}

void FakeEngine::Lose() {
  up_.store(false);
  stats_.rank_up.Set(0);
  EndAll(absl::UnavailableError("the fake rank was lost"));
}

std::vector<RequestSpec> FakeEngine::accepted() const {
  const std::lock_guard lock(mutex_);
  return accepted_;
}

int64_t FakeEngine::live() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(requests_.size());
}

int64_t FakeEngine::ended(FinishReason reason) const {
  return stats_.requests_ended[static_cast<size_t>(reason)].value();
}

void FakeEngine::Work() {
  while (!stop_.load()) {
    Tick();
    absl::SleepFor(options_.tick);
  }
}

void FakeEngine::Tick() {
  const std::lock_guard deliver(deliver_);
  std::vector<std::pair<RequestKey, Request>> batch;
  bool paused;
  {
    const std::lock_guard lock(mutex_);
    paused = paused_;
    for (const auto& [key, request] : requests_) batch.emplace_back(key, request);
  }
  for (auto& [key, request] : batch) {
    const bool ended = Step(request, paused);
    const std::lock_guard lock(mutex_);
    if (ended) {
      requests_.erase(key);
    } else {
      requests_[key].made = request.made;
    }
  }
}

bool FakeEngine::Step(Request& request, bool paused) {
  if (request.cancelled) {
    End(request, request.cancel_reason, absl::CancelledError("cancelled"));
    return true;
  }
  if (request.spec.deadline <= MonotonicClock::Get().Now()) {
    End(request, FinishReason::kDeadline, absl::DeadlineExceededError("too late"));
    return true;
  }
  if (paused) return false;
  const int32_t id = request.made % 256;
  request.sink->OnDelta({&id, 1}, absl::StrCat("t", request.made, " "));
  stats_.generated_tokens.Add();
  if (++request.made < request.spec.stop.max_tokens) return false;
  End(request, options_.last_reason,
      options_.last_reason == FinishReason::kFailed ? absl::InternalError("secret: bad numbers")
                                                    : absl::OkStatus());
  return true;
}

void FakeEngine::End(Request& request, FinishReason reason, const absl::Status& status) {
  Finish finish;
  finish.reason = reason;
  finish.status = status;
  if (reason == FinishReason::kEos || reason == FinishReason::kStopToken) finish.stop_token_id = 7;
  if (reason == FinishReason::kStopString) finish.stop_string_index = 0;
  finish.prompt_tokens = static_cast<int32_t>(request.spec.prompt_ids.size());
  finish.completion_tokens = request.made;
  finish.seed = request.spec.sampling.seed;
  finish.timings = {.queue = absl::Milliseconds(1),
                    .prefill = absl::Milliseconds(2),
                    .ttft = absl::Milliseconds(3),
                    .total = absl::Milliseconds(4)};
  stats_.requests_ended[static_cast<size_t>(reason)].Add();
  request.sink->OnFinish(finish);
}

void FakeEngine::EndAll(const absl::Status& status) {
  const std::lock_guard deliver(deliver_);
  std::map<RequestKey, Request> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(requests_);
  }
  for (auto& [key, request] : left) End(request, FinishReason::kFailed, status);
}

}  // namespace rally
