#include "tests/bench/soak/compare_loops.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "engine/base/clock.h"
#include "engine/step_pipeline.h"
#include "tests/bench/soak/checked_request.h"

namespace rally {
namespace {

constexpr int32_t kPromptTokens = 24;  // at most
constexpr int32_t kOutputTokens = 64;
constexpr absl::Duration kPatience = absl::Minutes(3);

using Streams = std::vector<std::vector<int32_t>>;

// Holds the engine thread after the launch of its first step, so that what is submitted meanwhile
// joins in one step.
class Gate : public StepObserver {
 public:
  void OnLaunch(const StepPlan&) override { opened_.WaitForNotification(); }
  void Open() { opened_.Notify(); }

 private:
  absl::Notification opened_;
};

RequestSpec Greedy(std::vector<int32_t> prompt, int32_t max_tokens) {
  RequestSpec spec;
  spec.prompt_ids = std::move(prompt);
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = max_tokens;
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

std::vector<std::vector<int32_t>> Prompts(int32_t batch, uint64_t seed, int32_t vocabulary) {
  std::mt19937_64 random(seed + static_cast<uint64_t>(batch));
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(batch));
  for (auto& prompt : prompts) {
    prompt.resize(1 + random() % kPromptTokens);
    for (int32_t& id : prompt)
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
  }
  return prompts;
}

SoakOptions OptionsFor(const SoakOptions& options, LoopKind loop, int32_t batch) {
  SoakOptions run = options;
  run.engine.loop = loop;
  run.engine.max_rows = batch + 1;  // and the request that holds the gate
  // All prompts in one step; without a KV cache all prefixes.
  const int32_t row = options.engine.kv_cache ? kPromptTokens : kPromptTokens + kOutputTokens;
  run.engine.context_tokens = kPromptTokens + kOutputTokens;
  run.engine.max_step_tokens = (batch + 1) * row + run.engine.context_tokens;
  run.engine.max_chunk_tokens = run.engine.max_step_tokens;
  run.engine.max_queued_requests = 2 * batch + 2;
  run.kv_blocks = 1 << 20;  // as many as are of use: nobody is preempted
  return run;
}

absl::StatusOr<Streams> RunBatch(const SoakOptions& options, int32_t batch) {
  Gate gate;
  auto started = StartSoakEngine(options, &gate);
  if (!started.ok()) return started.status();
  Engine& engine = *started->engine;
  const int32_t vocabulary = started->vocabulary->size();
  std::vector<std::shared_ptr<CheckedRequest>> requests;
  const auto submit = [&](RequestSpec spec) {
    requests.push_back(std::make_shared<CheckedRequest>(std::move(spec), vocabulary));
    return engine.Submit(requests.back()->spec(), requests.back()).status();
  };
  absl::Status status = submit(Greedy({1}, 1));
  for (auto& prompt : Prompts(batch, options.seed, vocabulary)) {
    status.Update(submit(Greedy(std::move(prompt), kOutputTokens)));
  }
  gate.Open();
  if (!status.ok()) return status;
  Streams streams;
  for (auto& request : requests) {
    if (!request->WaitForEnd(kPatience)) return absl::DeadlineExceededError("no terminal event");
    if (const std::string wrong = request->Verdict(); !wrong.empty()) {
      return absl::InternalError(wrong);
    }
    streams.push_back(request->ids());
  }
  return streams;
}

bool ReportDifference(int32_t batch, const Streams& sync, const Streams& pingpong) {
  for (size_t r = 0; r < sync.size(); ++r) {
    if (sync[r] == pingpong[r]) continue;
    const auto [a, b] =
        std::mismatch(sync[r].begin(), sync[r].end(), pingpong[r].begin(), pingpong[r].end());
    std::fprintf(stderr, "FAILED: batch %d: request %zu differs from token %td on\n", batch, r,
                 a - sync[r].begin());
    return true;
  }
  return false;
}

}  // namespace

bool CompareLoops(const SoakOptions& options) {
  bool equal = true;
  for (int32_t batch : {1, 7, 64}) {
    const auto sync = RunBatch(OptionsFor(options, LoopKind::kSync, batch), batch);
    const auto pingpong = RunBatch(OptionsFor(options, LoopKind::kPingPong, batch), batch);
    for (const auto* run : {&sync, &pingpong}) {
      if (run->ok()) continue;
      std::fprintf(stderr, "FAILED: batch %d: %s\n", batch, run->status().ToString().c_str());
      return false;
    }
    if (ReportDifference(batch, *sync, *pingpong)) {
      equal = false;
    } else {
      std::printf("batch %2d: sync and ping-pong give the same %d x %d tokens\n", batch, batch,
                  kOutputTokens);
    }
  }
  return equal;
}

}  // namespace rally
