// Greedy runs with the synchronous and the ping-pong loop give equal tokens, at equal composition.
#ifndef RALLY_TESTS_BENCH_SOAK_COMPARE_LOOPS_H_
#define RALLY_TESTS_BENCH_SOAK_COMPARE_LOOPS_H_

#include "tests/bench/soak/soak_engine.h"

namespace rally {

// False: a difference or an error, on stderr.
bool CompareLoops(const SoakOptions& options);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_SOAK_COMPARE_LOOPS_H_
