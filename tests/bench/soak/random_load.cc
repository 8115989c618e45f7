#include "tests/bench/soak/random_load.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/clock.h"

namespace rally {
namespace {

// No request of a soak takes so long; the engine itself gives a step up after --step-timeout.
constexpr absl::Duration kPatience = absl::Minutes(3);
constexpr int64_t kReportedFailures = 20;

}  // namespace

RandomLoad::RandomLoad(Engine* engine, const SoakOptions& options, int32_t vocabulary)
    : engine_(engine), options_(options), vocabulary_(vocabulary), random_(options.seed) {}

bool RandomLoad::Run() {
  const absl::Time start = absl::Now();
  const absl::Time end = start + absl::Seconds(options_.seconds);
  while (absl::Now() < end && failures_ == 0 && engine_->up()) {
    Act();
    Reap();
  }
  engine_->Drain(absl::Now() + kPatience);
  if (!engine_->up()) Fail(absl::StrCat("the rank is lost: ", engine_->status().ToString()));
  for (auto& request : live_) {
    if (!request->WaitForEnd(kPatience)) Fail("a request has no terminal event");
  }
  Reap();
  CheckIdle("at the end");
  CheckTotals();
  Print(absl::Now() - start);
  return failures_ == 0;
}

void RandomLoad::Act() {
  const auto rows = static_cast<size_t>(options_.engine.max_rows);
  if (live_.size() < rows / 4 || (live_.size() < 3 * rows && Chance(0.7))) return Join();
  if (Chance(0.002)) return Quiet();
  if (Chance(0.2)) return CancelOne();
  WaitForOne();
}

RequestSpec RandomLoad::RandomSpec() {
  RequestSpec spec;
  const int64_t context = engine_->context_tokens();
  const int64_t most = Chance(0.05) ? context - 1 : std::min<int64_t>(context - 1, 48);
  const int64_t pool = engine_->memory().kv_pool_tokens;
  for (int64_t n = std::min(Between(1, most), pool); n > 0; --n) {
    spec.prompt_ids.push_back(static_cast<int32_t>(Between(0, vocabulary_ - 1)));
  }
  if (Chance(0.6)) {
    spec.sampling.temperature = 0.01f * static_cast<float>(Between(1, 200));
    if (Chance(0.5)) spec.sampling.top_k = static_cast<int32_t>(Between(1, 100));
    if (Chance(0.5)) spec.sampling.top_p = 0.01f * static_cast<float>(Between(1, 100));
    if (Chance(0.3)) spec.sampling.min_p = 0.01f * static_cast<float>(Between(0, 100));
  } else {
    spec.sampling.temperature = 0;
  }
  spec.sampling.seed = random_();
  spec.stop.max_tokens = static_cast<int32_t>(Chance(0.1) ? context : Between(1, 80));
  if (Chance(0.3)) {
    spec.stop.min_tokens = static_cast<int32_t>(Between(0, std::min(20, spec.stop.max_tokens)));
  }
  spec.stop.ignore_eos = Chance(0.5);
  for (int64_t n = Chance(0.5) ? Between(1, 16) : 0; n > 0; --n) {
    spec.stop.token_ids.push_back(static_cast<int32_t>(Between(0, vocabulary_ - 1)));
  }
  for (int64_t n = Chance(0.2) ? Between(1, 3) : 0; n > 0; --n) {
    std::string& s = spec.stop.strings.emplace_back();
    for (int64_t i = Between(2, 5); i > 0; --i) s += static_cast<char>('a' + Between(0, 4));
  }
  spec.arrival = MonotonicClock::Get().Now();
  if (Chance(0.05)) spec.deadline = spec.arrival + absl::Milliseconds(Between(0, 500));
  return spec;
}

void RandomLoad::Join() {
  auto request = std::make_shared<CheckedRequest>(RandomSpec(), vocabulary_);
  const auto key = engine_->Submit(request->spec(), request);
  if (!key.ok()) {
    if (!absl::IsResourceExhausted(key.status())) Fail(key.status().ToString());
    ++refused_;
    return;
  }
  request->key = *key;
  ++accepted_;
  live_.push_back(std::move(request));
  if (Chance(0.02)) {
    live_.back()->cancelled = true;
    engine_->Cancel(*key, FinishReason::kCancelled);
    ++cancels_;
  }
}

void RandomLoad::CancelOne() {
  CheckedRequest* request = Any();
  if (request == nullptr) return;
  request->cancelled = true;
  engine_->Cancel(request->key, FinishReason::kCancelled);
  ++cancels_;
}

void RandomLoad::WaitForOne() {
  CheckedRequest* request = Any();
  if (request == nullptr) return;
  const auto tokens = request->ids().size() + static_cast<size_t>(Between(1, 8));
  if (!request->WaitForTokens(tokens, kPatience)) Fail("a request stands still");
}

// The device runs dry and starts again.
void RandomLoad::Quiet() {
  for (auto& request : live_) {
    if (!request->WaitForEnd(kPatience)) Fail("a request stands still");
  }
  Reap();
  CheckIdle("in a quiet time");
  ++quiet_times_;
}

void RandomLoad::Reap() {
  std::erase_if(live_, [&](const std::shared_ptr<CheckedRequest>& request) {
    if (!request->ended()) return false;
    const std::string wrong = request->Verdict();
    if (!wrong.empty()) Fail(absl::StrCat("request ", request->key, ": ", wrong));
    const Finish finish = request->finish();
    ++ended_[static_cast<size_t>(finish.reason)];
    tokens_ += finish.completion_tokens;
    return true;
  });
}

// The last terminal event comes a little before the end of the last step in flight.
void RandomLoad::CheckIdle(const std::string& when) {
  const EngineStats& stats = engine_->stats();
  const auto idle = [&] {
    return stats.kv_blocks_free.value() == stats.kv_blocks_total.value() &&
           stats.kv_blocks_held.value() == 0 && stats.kv_blocks_releasing.value() == 0 &&
           stats.queued_requests.value() == 0 && stats.running_requests.value() == 0;
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!idle() && absl::Now() < deadline) std::this_thread::yield();
  if (idle()) return;
  Fail(absl::StrCat(when, " of ", stats.kv_blocks_total.value(), " blocks ",
                    stats.kv_blocks_free.value(), " are free, ", stats.kv_blocks_held.value(),
                    " held, ", stats.kv_blocks_releasing.value(), " releasing; ",
                    stats.queued_requests.value(), " requests wait, ",
                    stats.running_requests.value(), " run"));
}

void RandomLoad::CheckTotals() {
  const EngineStats& stats = engine_->stats();
  int64_t ended = 0;
  for (size_t i = 0; i < ended_.size(); ++i) {
    ended += ended_[i];
    if (stats.requests_ended[i].value() != ended_[i]) Fail("ends by reason differ from the books");
  }
  if (ended != accepted_) Fail(absl::StrCat(accepted_, " requests accepted, ", ended, " ended"));
  if (stats.requests_accepted.value() != accepted_) Fail("accepted requests differ from the books");
  if (stats.generated_tokens.value() != tokens_) Fail("tokens differ from the books");
  if (engine_->outstanding_tokens() != 0) Fail("outstanding tokens are left");
  if (accepted_ == 0 || tokens_ == 0) Fail("nothing was generated");
}

void RandomLoad::Print(absl::Duration elapsed) const {
  static constexpr const char* kReasons[] = {"eos",    "stop_token", "stop_string", "length",
                                             "cancel", "deadline",   "failed"};
  const EngineStats& s = engine_->stats();
  std::printf("%s for %.0f s, seed %llu\n", engine_->device_name().c_str(),
              absl::ToDoubleSeconds(elapsed), static_cast<unsigned long long>(options_.seed));
  const auto line = [](const char* name, int64_t value) {
    std::printf("  %-18s %lld\n", name, static_cast<long long>(value));
  };
  line("steps", s.steps.value());
  line("tokens", tokens_);
  line("prompt_tokens", s.prompt_tokens.value());
  line("requests", accepted_);
  line("refused", refused_);
  line("cancels", cancels_);
  for (size_t i = 0; i < ended_.size(); ++i) {
    line(absl::StrCat("ended_", kReasons[i]).c_str(), ended_[i]);
  }
  line("preemptions", s.preemptions.value());
  line("surplus_rows", s.surplus_rows.value());
  line("stale_outcomes", s.stale_outcomes.value());
  line("kv_blocks", s.kv_blocks_total.value());
  line("kv_pool_growths", s.kv_pool_growths.value());
  line("kv_pool_refusals", s.kv_pool_refusals.value());
  line("quiet_times", quiet_times_);
  line("failures", failures_);
}

void RandomLoad::Fail(const std::string& what) {
  if (++failures_ <= kReportedFailures) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

int64_t RandomLoad::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

bool RandomLoad::Chance(double p) { return static_cast<double>(random_() % 1'000'000) < p * 1e6; }

CheckedRequest* RandomLoad::Any() {
  return live_.empty() ? nullptr : live_[random_() % live_.size()].get();
}

}  // namespace rally
