// Speed of decode steps of a real engine, beside the memory's speed measured in the same run:
//
//   decode_bench --config tests/bench/configs/gpt2 --device cuda:0 --loop sync,pingpong
//       --batch 1,32 --context 128,1000 --prefill 512 --json out.json
//
// The model is loaded once; each loop gets an engine, which runs all batches and contexts. Times
// are the stamps that the device takes at the start and the end of each step, of steps in which
// all rows decode. A run's median and p99 are taken, and of those the median over the runs.
#include <cstdio>
#include <fstream>

#include "tests/bench/decode/bench_options.h"
#include "tests/bench/decode/bench_run.h"

int main(int argc, char** argv) {
  const rally::BenchOptions options = rally::ParseBenchOptions(argc, argv);
  const auto result = rally::RunBench(options);
  if (!result.ok()) {
    std::fprintf(stderr, "decode_bench: %s\n", std::string(result.status().message()).c_str());
    return 1;
  }
  if (!options.json.empty() && !(std::ofstream(options.json) << result->dump(2) << "\n")) {
    std::fprintf(stderr, "decode_bench: --json: cannot write %s\n", options.json.c_str());
    return 1;
  }
  return 0;
}
