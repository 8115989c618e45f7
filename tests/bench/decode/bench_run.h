// All cases of decode_bench over one loaded model.
#ifndef RALLY_TESTS_BENCH_DECODE_BENCH_RUN_H_
#define RALLY_TESTS_BENCH_DECODE_BENCH_RUN_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "tests/bench/decode/bench_options.h"

namespace rally {

// The figures as they are written with --json; prints the same as tables on the way.
absl::StatusOr<nlohmann::json> RunBench(const BenchOptions& options);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_BENCH_RUN_H_
