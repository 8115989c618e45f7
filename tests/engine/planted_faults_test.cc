// The simulation proves itself: each fault that is planted in the engine is found within the seeds
// that the suite runs. This program alone is linked with the engine that has the planting points.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "engine/base/plant.h"
#include "tests/engine/simulation.h"

namespace rally {
namespace {

constexpr uint64_t kSeeds = 2000;

// In a child process: a fault may break an invariant that stops the process, which counts as found.
bool IsFound(const std::string& plant) {
  const pid_t child = fork();
  if (child == 0) {
    PlantedFault() = plant;
    fclose(stderr);
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      if (!Simulation(seed).Run().empty()) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

class PlantedFaultTest : public testing::TestWithParam<const char*> {};

TEST_P(PlantedFaultTest, IsFound) { EXPECT_TRUE(IsFound(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Rules, PlantedFaultTest,
                         testing::Values("RALLY_PLANT_FORESEEABLE_END_IGNORED",  // rule 1
                                         "RALLY_PLANT_KV_RESERVED_LATE",         // rule 2
                                         "RALLY_PLANT_RELEASED_IN_FLIGHT",       // rule 3
                                         "RALLY_PLANT_LAST_TOKEN_FROM_HOST",     // rule 4
                                         "RALLY_PLANT_RING_OF_ONE",              // rule 5
                                         "RALLY_PLANT_SLOT_RESET_PARTIAL",       // rule 6
                                         "RALLY_PLANT_SURPLUS_COUNTED",          // rule 9
                                         "RALLY_PLANT_RECORD_NOT_DOUBLED",       // rule 13
                                         "RALLY_PLANT_PREEMPTED_IN_FLIGHT",      // rule 14
                                         "RALLY_PLANT_KV_MOVED_UNORDERED",       // a growing pool
                                         "RALLY_PLANT_KV_FREED_IN_FLIGHT",
                                         "RALLY_PLANT_GRAPH_KEPT_STALE"),
                         [](const auto& plant) {
                           return std::string(plant.param + sizeof("RALLY_PLANT_") - 1);
                         });

TEST(PlantedFaultsTest, WithoutAPlantTheFirstSeedsPass) {
  for (uint64_t seed = 1; seed <= 50; ++seed) ASSERT_EQ(Simulation(seed).Run(), "");
}

}  // namespace
}  // namespace rally
