// A whole engine without threads, run by one seed: arrivals, lengths, cancels, deadlines, block
// shortage, a late, failing or hanging device. Replayable: the same seed gives the same run.
#ifndef RALLY_TESTS_ENGINE_SIMULATION_H_
#define RALLY_TESTS_ENGINE_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine_plan.h"
#include "engine/inline_emitter.h"
#include "engine/step_pipeline.h"
#include "tests/testing/hash_chain_model.h"
#include "tests/testing/scripted_device.h"

namespace rally {

class SimulatedClock : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  void Advance(absl::Duration d) { now_ += d; }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
};

// What a sink saw; how often the terminal event came is counted, not assumed.
class RecordingSink : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t> ids, std::string_view text) override;
  void OnFinish(const Finish& finish) override;

  std::vector<int32_t> ids;
  std::string text;
  int finishes = 0;
  int deltas_after_finish = 0;
  Finish finish;
};

class Simulation : private StepObserver {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation() override;

  // Runs to the end. The first broken promise, or an empty string.
  std::string Run();

 private:
  struct Client {
    RequestSpec spec;
    std::shared_ptr<RecordingSink> sink;
    uint64_t key = 0;
    int arrival_turn = 0;
    int cancel_turn = -1;  // -1: never
    bool refused = false;
  };
  struct LaunchedRow {
    const Sequence* sequence;
    int32_t slot;
    std::vector<int32_t> blocks;
  };

  void MakeConfig();
  void MakeClients();
  RequestSpec MakeSpec();
  void OnLaunch(const StepPlan& plan) override;
  void Arrivals(int turn);
  bool AllEnded() const;
  void Expect(bool condition, const std::string& what);
  void CheckBooks();
  void CheckInFlight();
  void CheckClient(const Client& client);
  void CheckStream(const Client& client);
  void CheckTotals();

  const uint64_t seed_;
  std::mt19937_64 random_;
  std::string failure_;
  EngineConfig config_;
  DeviceScript script_;
  bool device_fails_ = false;
  SimulatedClock clock_;
  Vocabulary vocabulary_;
  std::unique_ptr<ScriptedDevice> device_;
  std::unique_ptr<HashChainModel> model_;
  EnginePlan plan_;
  std::unique_ptr<Executor> executor_;
  EngineStats stats_;
  InlineEmitter emitter_;
  std::unique_ptr<SchedulerState> state_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<SequenceTable> sequences_;
  std::unique_ptr<StepPipeline> pipeline_;
  std::vector<Client> clients_;
  std::map<uint64_t, std::vector<LaunchedRow>> in_flight_;  // by step
};

}  // namespace rally

#endif  // RALLY_TESTS_ENGINE_SIMULATION_H_
