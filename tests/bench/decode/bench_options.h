// What decode_bench is asked to measure.
#ifndef RALLY_TESTS_BENCH_DECODE_BENCH_OPTIONS_H_
#define RALLY_TESTS_BENCH_DECODE_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_config.h"

namespace rally {

struct BenchOptions {
  std::string device = "host";  // "host", or "cuda:N"
  int threads = 0;              // of the host device; 0: all cores
  std::string config;           // a directory with config.json: seeded random weights
  std::string model;            // or a model with weights
  std::string dtype = "auto";

  // Every combination of these three is a case.
  std::vector<std::string> loops = {"pingpong"};
  std::vector<int32_t> batches = {1};
  std::vector<int32_t> contexts = {128};
  std::vector<int32_t> prefills;  // prompt lengths, each measured as one step

  int32_t steps = 200;  // measured steps of a run
  int32_t repeats = 5;
  int32_t kv_block_tokens = 16;  // 0: one block holds the whole context
  std::string kv_pool = "fixed";
  std::string kv_cache = "on";
  std::string graphs = "on";

  std::string json;   // file for the figures
  std::string trace;  // file for the stamps of every step, as CSV
};

// Reads the command line; where it is wrong or asks for help, prints that and leaves the program.
BenchOptions ParseBenchOptions(int argc, char** argv);

LoopKind LoopNamed(std::string_view name);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_BENCH_OPTIONS_H_
