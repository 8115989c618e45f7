// Faults planted on purpose, so that the simulation can prove that it finds them.
//
// RALLY_PLANT(KV_RESERVED_LATE) is the constant false in every shipped library. The test build
// compiles the engine a second time with RALLY_PLANT_FAULTS; there PlantedFault() names the one
// fault that is on. Each name stands at one place in the code, next to
// the rule that it breaks (ARCHITECTURE.md, "Rules of the loop").
#ifndef RALLY_ENGINE_BASE_PLANT_H_
#define RALLY_ENGINE_BASE_PLANT_H_

#ifdef RALLY_PLANT_FAULTS

#include <string>

namespace rally {
// The planted fault's name, set by the test before the engine starts; empty: none.
inline std::string& PlantedFault() {
  static std::string name;
  return name;
}
}  // namespace rally

#define RALLY_PLANT(name) (::rally::PlantedFault() == "RALLY_PLANT_" #name)

#else

#define RALLY_PLANT(name) false

#endif  // RALLY_PLANT_FAULTS

#endif  // RALLY_ENGINE_BASE_PLANT_H_
