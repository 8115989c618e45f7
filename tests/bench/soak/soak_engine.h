// The engines of a soak: a real device, and a model of random weights by default.
#ifndef RALLY_TESTS_BENCH_SOAK_SOAK_ENGINE_H_
#define RALLY_TESTS_BENCH_SOAK_SOAK_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "kernels/ops.h"

namespace rally {

struct SoakOptions {
  std::string device = "host";  // or cuda
  int threads = 1;              // of the host device
  std::string model;            // a directory with config.json, or a GGUF file
  std::string load_format = "dummy";
  std::string dtype;  // bf16, fp16 or fp32
  uint64_t seed = 1;
  int seconds = 300;
  int32_t kv_blocks = 0;  // 0: 24 positions a row, fewer than most rows want
  bool compare_loops = false;
  EngineConfig engine;
};

struct SoakEngine {
  std::unique_ptr<Vocabulary> vocabulary;  // one to three letters a token; outlives the engine
  std::unique_ptr<Engine> engine;
};

// `observer` may be null.
absl::StatusOr<SoakEngine> StartSoakEngine(const SoakOptions& options, StepObserver* observer);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_SOAK_SOAK_ENGINE_H_
