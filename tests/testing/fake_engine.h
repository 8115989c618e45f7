// An Engine without a model: each accepted request gets the texts "t0 ", "t1 ", ... one a tick,
// until its max_tokens. What a test wants otherwise it sets before or while requests run.
#ifndef RALLY_TESTS_TESTING_FAKE_ENGINE_H_
#define RALLY_TESTS_TESTING_FAKE_ENGINE_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace rally {

class FakeEngine final : public Engine {
 public:
  struct Options {
    std::string name = "fake:0";
    absl::Duration tick = absl::Milliseconds(1);
    int32_t context_tokens = 1024;
    size_t max_live = 64;                              // then RESOURCE_EXHAUSTED
    FinishReason last_reason = FinishReason::kLength;  // how a request ends by itself
  };

  explicit FakeEngine(Options options);
  ~FakeEngine() override;

  absl::StatusOr<RequestKey> Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) override;
  void Cancel(RequestKey key, FinishReason reason) override;
  void StopAccepting() override;
  void Drain(absl::Time deadline) override;
  int64_t outstanding_tokens() const override;
  bool up() const override { return up_.load(); }
  absl::Status status() const override;
  const EngineStats& stats() const override { return stats_; }
  std::string device_name() const override { return options_.name; }
  int32_t context_tokens() const override { return options_.context_tokens; }
  EngineMemory memory() const override { return {}; }

  // Accepted requests make no tokens while paused; cancels still work.
  void SetPaused(bool paused);
  // The rank is lost: what runs ends UNAVAILABLE.
  void Lose();
  void SetOutstandingTokens(int64_t tokens) { outstanding_override_.store(tokens); }
  EngineStats& mutable_stats() { return stats_; }

  std::vector<RequestSpec> accepted() const;
  int64_t live() const;
  int64_t ended(FinishReason reason) const;

 private:
  struct Request {
    RequestSpec spec;
    std::shared_ptr<TokenSink> sink;
    int32_t made = 0;
    bool cancelled = false;
    FinishReason cancel_reason = FinishReason::kCancelled;
  };

  void Work();
  void Tick();
  // True when the request has ended.
  bool Step(Request& request, bool paused);
  void End(Request& request, FinishReason reason, const absl::Status& status);
  void EndAll(const absl::Status& status);

  const Options options_;
  EngineStats stats_;
  std::atomic<bool> up_{true};
  std::atomic<int64_t> outstanding_override_{-1};
  // Held while sinks are called, so that no sink is called by two threads at once. Order: this
  // before mutex_.
  std::mutex deliver_;
  mutable std::mutex mutex_;
  std::map<RequestKey, Request> requests_;
  std::vector<RequestSpec> accepted_;
  RequestKey next_key_ = 1;
  bool accepting_ = true;
  bool paused_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rally

#endif  // RALLY_TESTS_TESTING_FAKE_ENGINE_H_
