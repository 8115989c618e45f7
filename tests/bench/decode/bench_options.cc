#include "tests/bench/decode/bench_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <set>

namespace rally {
namespace {

const std::set<std::string> kLoops = {"sync", "pingpong", "copy-stream"};

CLI::Validator Device() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool cuda = text.starts_with("cuda:") && text.size() > 5 &&
                          text.find_first_not_of("0123456789", 5) == std::string::npos;
        return text == "host" || cuda ? "" : "\"" + text + "\" is neither host nor cuda:N";
      },
      "DEVICE");
}

void AddModelFlags(CLI::App& app, BenchOptions& o) {
  app.add_option("--device", o.device, "host, or cuda:N for one GPU")->check(Device());
  app.add_option("--threads", o.threads, "Threads of the host device; 0: all cores")
      ->check(CLI::Range(0, 1024));
  auto* config = app.add_option("--config", o.config,
                                "Directory with config.json, filled with seeded random weights")
                     ->check(CLI::ExistingDirectory);
  auto* model =
      app.add_option("--model", o.model, "Model directory or GGUF file")->check(CLI::ExistingPath);
  config->excludes(model);
  app.add_option("--dtype", o.dtype, "Compute type; auto: bf16 where the device has it")
      ->check(CLI::IsMember({"auto", "bf16", "fp16", "fp32"}));
}

void AddCaseFlags(CLI::App& app, BenchOptions& o) {
  const auto positive = CLI::Range(1, 1 << 20);
  app.add_option("--loop", o.loops, "Loops, comma-separated: sync, pingpong, copy-stream")
      ->delimiter(',')
      ->check(CLI::IsMember(kLoops));
  app.add_option("--batch", o.batches, "Sequences that decode at once, comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--context", o.contexts, "Mean context of the measured steps, comma-separated")
      ->delimiter(',')
      ->check(positive);
  app.add_option("--prefill", o.prefills, "Prompt lengths to prefill in one step, comma-separated")
      ->delimiter(',')
      ->check(positive);
  app.add_option("--steps", o.steps, "Measured steps of a run")->check(CLI::Range(16, 1 << 20));
  app.add_option("--repeats", o.repeats, "Runs of which the medians count")
      ->check(CLI::Range(1, 1000));
}

void AddEngineFlags(CLI::App& app, BenchOptions& o) {
  app.add_option("--kv-block-tokens", o.kv_block_tokens,
                 "Positions of a KV block; 0: one block holds the whole context")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--kv-pool", o.kv_pool, "How the KV pool gets its memory")
      ->check(CLI::IsMember({"fixed", "mapped", "realloc"}));
  app.add_option("--kv-cache", o.kv_cache, "off: every step computes the whole prefix")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--graphs", o.graphs, "off: steps are launched op by op")
      ->check(CLI::IsMember({"on", "off"}));
}

}  // namespace

BenchOptions ParseBenchOptions(int argc, char** argv) {
  BenchOptions options;
  CLI::App app("Speed of decode steps, by the stamps that the device itself takes");
  AddModelFlags(app, options);
  AddCaseFlags(app, options);
  AddEngineFlags(app, options);
  app.add_option("--json", options.json, "Also write the figures to this file");
  app.add_option("--trace", options.trace, "Write the stamps of every step to this file, as CSV");
  app.callback([&] {
    if (options.config.empty() && options.model.empty()) {
      throw CLI::RequiredError("--config or --model");
    }
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

LoopKind LoopNamed(std::string_view name) {
  if (name == "sync") return LoopKind::kSync;
  return name == "copy-stream" ? LoopKind::kCopyStream : LoopKind::kPingPong;
}

}  // namespace rally
