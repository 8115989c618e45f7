// Speed of a whole engine on the host device, without a client, beside what the machine can do:
//
//   engine_bench MODEL [--json FILE] [--dtype bf16|fp32] [--threads N] [--repeats N]
//
// Each figure is a median; the read bandwidth and oneDNN's own rate are measured in the same run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "engine/engine.h"
#include "engine/model/model_loader.h"
#include "engine/model/transformer.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "tests/bench/machine_limits.h"
#include "tests/testing/collecting_sink.h"

namespace rally {
namespace {

struct Options {
  std::string model;
  std::string json;
  std::string dtype;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int repeats = 5;
};

RequestSpec Request(int prompt, int output) {
  RequestSpec spec;
  for (int i = 0; i < prompt; ++i) spec.prompt_ids.push_back(100 + i * 7 % 20000);
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = output;
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

// Runs `batch` equal requests to their end; the seconds from when all have a token to the end.
double DecodeSeconds(Engine* engine, int batch, int prompt, int output) {
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int i = 0; i < batch; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    if (!engine->Submit(Request(prompt, output), sinks.back()).ok()) std::abort();
  }
  for (auto& sink : sinks) sink->WaitForTokens(1);
  const absl::Time start = absl::Now();
  size_t before = 0;
  for (auto& sink : sinks) before += sink->ids().size();
  for (auto& sink : sinks) sink->WaitForFinish();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const double tokens = static_cast<double>(batch * output) - static_cast<double>(before);
  return seconds / tokens * batch;  // of one step
}

double PrefillSeconds(Engine* engine, int prompt) {
  auto sink = std::make_shared<CollectingSink>();
  if (!engine->Submit(Request(prompt, 1), sink).ok()) std::abort();
  return absl::ToDoubleSeconds(sink->WaitForFinish().timings.prefill);
}

double MedianOf(int repeats, const std::function<double()>& measure) {
  measure();
  std::vector<double> values;
  for (int i = 0; i < repeats; ++i) values.push_back(measure());
  return Median(std::move(values));
}

// The engine owns its device; what the machine can do is measured on the same compute thread.
struct Bench {
  Engine* engine;
  Device* device;
  std::unique_ptr<Stream> stream;
};

nlohmann::json Measure(const Bench& bench, const ModelConfig& config, DType dtype,
                       const Options& options) {
  constexpr int kPrompt = 16, kOutput = 112, kPrefill = 512;
  Engine* engine = bench.engine;
  const double bandwidth = OnDeviceThread(*bench.device, *bench.stream, ReadBandwidth);
  const double limit = StepParameters(config) * static_cast<double>(DTypeBytes(dtype)) / bandwidth;
  nlohmann::json result = {{"dtype", std::string(DTypeName(dtype))},
                           {"threads", options.threads},
                           {"read_gb_per_s", bandwidth * 1e-9},
                           {"limit_us", limit * 1e6}};
  std::printf("read bandwidth %.1f GB/s; reading the weights once takes %.2f ms\n",
              bandwidth * 1e-9, limit * 1e3);
  double first = 0;
  for (int batch : {1, 8, 32}) {
    const double step =
        MedianOf(options.repeats, [&] { return DecodeSeconds(engine, batch, kPrompt, kOutput); });
    if (batch == 1) first = step;
    const double speedup = batch * first / step;
    std::printf(
        "decode batch %2d: %7.2f ms a step, %6.1f tokens/s, %4.1f %% of the limit, "
        "%.2f x the tokens/s of batch 1\n",
        batch, step * 1e3, batch / step, limit / step * 100, speedup);
    result["decode"].push_back({{"batch", batch},
                                {"step_us", step * 1e6},
                                {"tokens_per_s", batch / step},
                                {"share_of_limit", limit / step},
                                {"tokens_per_s_over_batch_1", speedup}});
  }
  const double own = MedianOf(options.repeats, [&] { return PrefillSeconds(engine, kPrefill); });
  const double library = OnDeviceThread(
      *bench.device, *bench.stream, [&] { return OneDnnPrefillSeconds(config, dtype, kPrefill); });
  std::printf(
      "prefill %d tokens: %.0f ms, %.0f tokens/s; oneDNN's products alone %.0f ms: "
      "%.1f %% of its rate\n",
      kPrefill, own * 1e3, kPrefill / own, library * 1e3, library / own * 100);
  result["prefill"] = {{"tokens", kPrefill},
                       {"ms", own * 1e3},
                       {"onednn_ms", library * 1e3},
                       {"share_of_onednn", library / own}};
  const EngineStats& stats = engine->stats();
  const double bubble =
      static_cast<double>(stats.idle_bubble_ns.value()) / static_cast<double>(stats.steps.value());
  std::printf("idle a step (bubble, mean): %.1f us\n", bubble * 1e-3);
  result["idle_us_mean"] = bubble * 1e-3;
  return result;
}

int Main(const Options& options) {
  auto device = NewHostDevice({.threads = options.threads});
  auto source = OpenModel(options.model, LoadFormat::kAuto, 0);
  if (!device.ok() || !source.ok()) {
    std::fprintf(stderr, "%s\n", std::string(source.status().message()).c_str());
    return 1;
  }
  const ModelConfig config = source->config;
  const DType dtype = options.dtype == "fp32"   ? DType::kF32
                      : options.dtype == "bf16" ? DType::kBF16
                      : HostHasBf16()           ? DType::kBF16
                                                : DType::kF32;
  auto model = Transformer::Create(**device, *std::move(source), dtype);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  const Vocabulary no_text({});
  Bench bench{.engine = nullptr, .device = device->get(), .stream = *(*device)->NewStream()};
  auto engine = Engine::Create({}, *std::move(device), *std::move(model), &no_text);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", std::string(engine.status().message()).c_str());
    return 1;
  }
  bench.engine = engine->get();
  nlohmann::json result = Measure(bench, config, dtype, options);
  bench.stream.reset();
  result["model"] = options.model.substr(options.model.find_last_of('/') + 1);
  if (!options.json.empty()) std::ofstream(options.json) << result.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace rally

int main(int argc, char** argv) {
  rally::Options options;
  CLI::App app("Speed of a whole engine on the host device");
  app.add_option("model", options.model, "A model directory or GGUF file")->required();
  app.add_option("--json", options.json, "Also write the figures to this file");
  app.add_option("--dtype", options.dtype, "bf16 or fp32; default: what the CPU is best at")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  app.add_option("--threads", options.threads, "Threads of the device")->check(CLI::Range(1, 1024));
  app.add_option("--repeats", options.repeats, "Runs of which the median counts")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  return rally::Main(options);
}
