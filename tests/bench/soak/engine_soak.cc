// The whole engine under random load on a real device:
//
//   engine_soak [--device cuda] [--seconds 300] [--seed 1] [--model DIR] ...
//   engine_soak --compare-loops [--device cuda]
//
// Random joins, cancels, deadlines, stop ids and strings, lengths and sampling parameters, against
// a KV pool that is too small for them. Every request must have exactly one terminal event that
// fits what it asked for, every block must come back, and the engine's counts must be those that
// the requests saw. Exit status 0: all of that held.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/bench/soak/compare_loops.h"
#include "tests/bench/soak/random_load.h"
#include "tests/bench/soak/soak_engine.h"

namespace rally {
namespace {

int Main(const SoakOptions& options) {
  if (options.compare_loops) return CompareLoops(options) ? EXIT_SUCCESS : EXIT_FAILURE;
  const auto started = StartSoakEngine(options, nullptr);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    return EXIT_FAILURE;
  }
  RandomLoad load(started->engine.get(), options, started->vocabulary->size());
  return load.Run() ? EXIT_SUCCESS : EXIT_FAILURE;
}

template <typename T>
void AddChoice(CLI::App& app, const char* flag, T& value, std::map<std::string, T> choices,
               const char* help) {
  app.add_option(flag, value, help)->transform(CLI::CheckedTransformer(std::move(choices)));
}

void AddEngineOptions(CLI::App& app, EngineConfig& engine) {
  AddChoice<LoopKind>(app, "--loop", engine.loop,
                      {{"pingpong", LoopKind::kPingPong},
                       {"sync", LoopKind::kSync},
                       {"copystream", LoopKind::kCopyStream}},
                      "The loop");
  AddChoice<KvPoolKind>(app, "--kv-pool", engine.kv_pool,
                        {{"fixed", KvPoolKind::kFixed},
                         {"mapped", KvPoolKind::kMapped},
                         {"realloc", KvPoolKind::kReallocated}},
                        "How the KV pool gets its memory");
  AddChoice<bool>(app, "--kv-cache", engine.kv_cache, {{"on", true}, {"off", false}},
                  "off: each step computes whole prefixes");
  AddChoice<bool>(app, "--graphs", engine.graphs, {{"on", true}, {"off", false}},
                  "off: each op is launched on its own");
  app.add_option("--max-rows", engine.max_rows, "Sequences that run at once");
  app.add_option("--max-step-tokens", engine.max_step_tokens, "Tokens of one step");
  app.add_option("--context-tokens", engine.context_tokens, "Prompt and output; 0: the model's");
  app.add_option("--kv-block-tokens", engine.kv_block_tokens, "Positions of a KV block");
}

}  // namespace
}  // namespace rally

int main(int argc, char** argv) {
  rally::SoakOptions options;
  options.model = RALLY_SOURCE_DIR "/tests/fixtures/checkpoints/llama_tiny";
  CLI::App app("The whole engine under random load on a real device");
  app.option_defaults()->always_capture_default();
  app.add_option("--device", options.device, "host or cuda")
      ->check(CLI::IsMember({"host", "cuda"}));
  app.add_option("--threads", options.threads, "Of the host device")->check(CLI::Range(1, 1024));
  app.add_option("--model", options.model, "A directory with config.json, or a GGUF file");
  app.add_option("--load-format", options.load_format, "dummy: random weights; auto: the file's")
      ->check(CLI::IsMember({"dummy", "auto"}));
  app.add_option("--dtype", options.dtype, "Compute type; default: fp32 on the host, bf16 on cuda")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  app.add_option("--seconds", options.seconds, "Duration")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", options.seed, "Of the load and of the random weights");
  app.add_option("--kv-blocks", options.kv_blocks,
                 "Blocks of the KV pool; 0: for 24 positions a row, fewer than most rows want")
      ->check(CLI::Range(0, 1 << 24));
  app.add_flag("--compare-loops", options.compare_loops,
               "Instead: greedy at batch 1, 7 and 64, sync against pingpong");
  rally::AddEngineOptions(app, options.engine);
  CLI11_PARSE(app, argc, argv);
  if (options.dtype.empty()) options.dtype = options.device == "cuda" ? "bf16" : "fp32";
  options.engine.max_chunk_tokens = options.engine.max_step_tokens;
  return rally::Main(options);
}
