#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/admission.h"
#include "engine/base/status_macros.h"
#include "engine/emitter.h"
#include "engine/engine_plan.h"
#include "engine/executor.h"
#include "engine/sequence_table.h"
#include "engine/step_pipeline.h"
#include "engine/warm_up.h"

namespace rally {
namespace {

class ThreadedEngine : public Engine {
 public:
  ThreadedEngine(const EngineConfig& config, const EnginePlan& plan, std::unique_ptr<Device> device,
                 std::unique_ptr<DecoderModel> model, std::unique_ptr<Executor> executor,
                 const Vocabulary* vocabulary, StepObserver* observer)
      : plan_(plan),
        device_(std::move(device)),
        model_(std::move(model)),
        executor_(std::move(executor)),
        state_(executor_->kv_blocks(), plan.slot_count, plan.block_count),
        admission_(plan.admission, vocabulary, &MonotonicClock::Get()),
        emitter_(config.emitter_threads, config.max_queued_requests + config.max_rows),
        sequences_(&admission_, &stats_, &emitter_, &state_),
        pipeline_(Parts(vocabulary, observer), plan.scheduler, plan.steps_in_flight,
                  config.step_timeout) {
    stats_.timed_by_events.Set(executor_->timed_by_events() ? 1 : 0);
    stats_.rank_up.Set(1);
    thread_ = std::thread(&ThreadedEngine::Run, this);
  }

  ~ThreadedEngine() override {
    Drain(absl::InfinitePast());
    stop_ = true;
    admission_.Wake();
    thread_.join();
  }

  absl::StatusOr<RequestKey> Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) override {
    RALLY_ASSIGN_OR_RETURN(const uint64_t key, admission_.Submit(std::move(spec), std::move(sink)));
    stats_.requests_accepted.Add();
    return key;
  }
  void Cancel(RequestKey key, FinishReason reason) override { admission_.Cancel(key, reason); }
  void StopAccepting() override { admission_.Close("the server is draining"); }
  void Drain(absl::Time deadline) override {
    StopAccepting();
    if (admission_.WaitUntilEmpty(deadline)) return;
    admission_.AbortAll();
    admission_.WaitUntilEmpty(absl::InfiniteFuture());
  }

  int64_t outstanding_tokens() const override { return admission_.outstanding_tokens(); }
  bool up() const override { return up_.load(); }
  absl::Status status() const override {
    std::lock_guard lock(status_mutex_);
    return status_;
  }
  const EngineStats& stats() const override { return stats_; }
  std::string device_name() const override { return device_->name(); }
  int32_t context_tokens() const override { return plan_.admission.context_tokens; }
  EngineMemory memory() const override {
    return {.model_bytes = model_->resident_bytes(),
            .kv_pool_bytes = executor_->kv_pool_bytes(),
            .kv_pool_tokens = plan_.admission.pool_tokens,
            .step_bytes = executor_->step_bytes()};
  }

 private:
  StepPipeline::Parts Parts(const Vocabulary* vocabulary, StepObserver* observer) {
    return {.admission = &admission_,
            .executor = executor_.get(),
            .emitter = &emitter_,
            .stats = &stats_,
            .state = &state_,
            .sequences = &sequences_,
            .vocabulary = vocabulary,
            .clock = &MonotonicClock::Get(),
            .device = device_.get(),
            .observer = observer};
  }

  void Run() {
    while (!stop_) {
      const absl::StatusOr<bool> progress = pipeline_.Turn();
      if (!progress.ok()) return LoseRank(progress.status());
      if (!*progress) admission_.Wait();
    }
  }

  // The door closes first, so that nothing is accepted after the last look at the inbox.
  void LoseRank(const absl::Status& cause) {
    const absl::Status status =
        absl::UnavailableError(absl::StrCat(device_->name(), " is lost: ", cause.message()));
    {
      std::lock_guard lock(status_mutex_);
      status_ = status;
    }
    up_ = false;
    stats_.rank_up.Set(0);
    admission_.Close(std::string(status.message()));
    pipeline_.FailAll(status);
  }

  const EnginePlan plan_;
  // Destroyed from the bottom up: the thread's parts before the executor, that before the device.
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<DecoderModel> model_;
  const std::unique_ptr<Executor> executor_;
  EngineStats stats_;
  SchedulerState state_;
  Admission admission_;
  ThreadedEmitter emitter_;
  SequenceTable sequences_;
  StepPipeline pipeline_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> up_{true};
  mutable std::mutex status_mutex_;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineConfig& config,
                                                       std::unique_ptr<Device> device,
                                                       std::unique_ptr<DecoderModel> model,
                                                       const Vocabulary* vocabulary,
                                                       StepObserver* observer) {
  RALLY_ASSIGN_OR_RETURN(const EnginePlan plan, PlanEngine(config, *model, device->memory()));
  RALLY_ASSIGN_OR_RETURN(auto executor, Executor::Create(device.get(), model.get(), plan.executor));
  RALLY_RETURN_IF_ERROR(WarmUp(plan, executor.get(), device.get(), vocabulary));
  return std::make_unique<ThreadedEngine>(config, plan, std::move(device), std::move(model),
                                          std::move(executor), vocabulary, observer);
}

}  // namespace rally
