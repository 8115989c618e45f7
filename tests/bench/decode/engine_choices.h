// The engine that decode_bench measures: the server's defaults, sized for the cases.
#ifndef RALLY_TESTS_BENCH_DECODE_ENGINE_CHOICES_H_
#define RALLY_TESTS_BENCH_DECODE_ENGINE_CHOICES_H_

#include <cstdint>

#include "engine/engine_config.h"
#include "tests/bench/decode/bench_options.h"
#include "tests/bench/decode/loaded_model.h"

namespace rally {

// The largest of all cases that the engine serves.
struct EngineShape {
  int32_t rows = 1;
  int32_t context = 0;
  int32_t steps = 0;
  int32_t step_tokens = 0;  // of one step, at least
};

// With context_tokens, block size and KV pool filled in.
EngineConfig ChooseEngine(const BenchOptions& options, const EngineShape& shape,
                          const LoadedModel& model);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_ENGINE_CHOICES_H_
