// 2,000 seeds of the simulated engine. A failing seed is printed; it replays alone with
//   RALLY_SIM_SEED=<seed> simulation_test
// RALLY_SIM_SEEDS=<n> runs more of them.
#include "tests/engine/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace rally {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

TEST(SimulationTest, EverySeedKeepsEveryPromise) {
  const uint64_t first = FromEnvironment("RALLY_SIM_SEED", 1);
  const uint64_t count = FromEnvironment("RALLY_SIM_SEEDS", 2000);
  const uint64_t last = std::getenv("RALLY_SIM_SEED") != nullptr ? first : first + count - 1;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const std::string failure = Simulation(seed).Run();
    ASSERT_EQ(failure, "") << "replay: RALLY_SIM_SEED=" << seed << " simulation_test";
  }
}

}  // namespace
}  // namespace rally
