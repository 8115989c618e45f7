// Random joins and leaves against one engine for some time, then the books.
#ifndef RALLY_TESTS_BENCH_SOAK_RANDOM_LOAD_H_
#define RALLY_TESTS_BENCH_SOAK_RANDOM_LOAD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/soak/checked_request.h"
#include "tests/bench/soak/soak_engine.h"

namespace rally {

class RandomLoad {
 public:
  // `engine` outlives this. `vocabulary` is the number of ids.
  RandomLoad(Engine* engine, const SoakOptions& options, int32_t vocabulary);

  // False: a promise was broken; each is on stderr.
  bool Run();

 private:
  void Act();
  void Join();
  void CancelOne();
  void WaitForOne();
  void Quiet();
  RequestSpec RandomSpec();
  void Reap();
  void CheckIdle(const std::string& when);
  void CheckTotals();
  void Print(absl::Duration elapsed) const;
  void Fail(const std::string& what);
  int64_t Between(int64_t low, int64_t high);
  bool Chance(double p);
  CheckedRequest* Any();

  Engine* const engine_;
  const SoakOptions options_;
  const int32_t vocabulary_;
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<CheckedRequest>> live_;
  int64_t failures_ = 0;
  int64_t accepted_ = 0;
  int64_t refused_ = 0;
  int64_t cancels_ = 0;
  int64_t quiet_times_ = 0;
  int64_t tokens_ = 0;
  std::array<int64_t, 7> ended_ = {};  // by FinishReason
};

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_SOAK_RANDOM_LOAD_H_
