// One case of decode_bench: what a decode step costs with so many rows around such a context.
#ifndef RALLY_TESTS_BENCH_DECODE_DECODE_CASE_H_
#define RALLY_TESTS_BENCH_DECODE_DECODE_CASE_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "tests/bench/decode/step_trace.h"

namespace rally {

struct Summary {
  double median = 0;
  double p99 = 0;
};

// Where the trace file takes its rows from; `file` may be null.
struct TraceFile {
  std::FILE* file = nullptr;
  std::string case_name;
};

// How requests are made so that the measured steps lie around the context.
struct DecodeShape {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  int32_t steps = 0;  // to measure
};

struct DecodeCase {
  int32_t batch = 1;
  int32_t context = 128;
  int32_t steps = 200;
  int32_t repeats = 5;
  int32_t step_tokens = 512;   // the engine's max_step_tokens
  int32_t context_tokens = 0;  // the engine's
  bool whole_prefix = false;   // no KV cache: a row of a step holds its whole prefix
  int32_t vocab_size = 0;
};

struct DecodeFigures {
  int32_t steps = 0;        // measured in a run
  double context_mean = 0;  // of the measured rows
  // Median over the runs of each run's median and p99, in microseconds.
  Summary step_us;  // start of a step to the start of the next
  Summary busy_us;  // start of a step to its end
  Summary idle_us;  // end of a step to the start of the next
};

// INVALID_ARGUMENT where no run of this length fits around the context.
absl::StatusOr<DecodeShape> ShapeOfRun(const DecodeCase& c);
absl::StatusOr<DecodeFigures> MeasureDecode(Engine* engine, StepTrace* trace, const DecodeCase& c,
                                            const TraceFile& file);

// Microseconds that one step with a prompt of `tokens` tokens takes on the device.
absl::StatusOr<Summary> MeasurePrefill(Engine* engine, StepTrace* trace, int32_t tokens,
                                       const DecodeCase& c);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_DECODE_CASE_H_
