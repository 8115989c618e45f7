#include "tests/bench/decode/bench_run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tests/bench/decode/decode_case.h"
#include "tests/bench/decode/engine_choices.h"
#include "tests/bench/decode/loaded_model.h"
#include "tests/bench/machine_limits.h"

namespace rally {
namespace {

using nlohmann::json;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class BenchRun {
 public:
  BenchRun(const BenchOptions& options, LoadedModel* model) : options_(options), model_(*model) {}

  absl::StatusOr<json> Run() {
    RALLY_RETURN_IF_ERROR(OpenTrace());
    RALLY_ASSIGN_OR_RETURN(bandwidth_, model_.ReadBandwidth());
    PrintHead();
    json result = Head();
    for (const std::string& loop : options_.loops) {
      RALLY_RETURN_IF_ERROR(RunLoop(loop, &result["decode"]));
    }
    if (!options_.prefills.empty()) RALLY_RETURN_IF_ERROR(RunPrefills(&result["prefill"]));
    return result;
  }

 private:
  absl::Status OpenTrace() {
    if (options_.trace.empty()) return absl::OkStatus();
    trace_file_.reset(std::fopen(options_.trace.c_str(), "w"));
    if (trace_file_ == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("--trace: cannot write ", options_.trace));
    }
    std::fputs("case,repeat,step,start_ns,end_ns,rows,tokens,decode,measured\n", trace_file_.get());
    return absl::OkStatus();
  }

  json Head() const {
    return {{"benchmark", "decode"},
            {"model", model_.name()},
            {"dtype", std::string(DTypeName(model_.dtype()))},
            {"device", model_.device_name()},
            {"kv_pool", options_.kv_pool},
            {"kv_cache", options_.kv_cache},
            {"graphs", options_.graphs},
            {"kv_block_tokens", options_.kv_block_tokens},
            {"read_gb_per_s", bandwidth_ * 1e-9},
            {"weight_bytes", model_.weight_bytes()},
            {"kv_bytes_per_token", model_.kv_bytes_per_token()},
            {"decode", json::array()},
            {"prefill", json::array()}};
  }

  void PrintHead() const {
    std::printf("%s, %s, %s: reads %.0f GB/s; the %.0f MB of weights once take %.1f us\n",
                model_.name().c_str(), std::string(DTypeName(model_.dtype())).c_str(),
                model_.device_name().c_str(), bandwidth_ * 1e-9, model_.weight_bytes() * 1e-6,
                model_.weight_bytes() / bandwidth_ * 1e6);
    std::printf("%-12s %6s %8s %6s %11s %11s %9s %9s %11s %10s %7s\n", "loop", "batch", "context",
                "steps", "step us", "p99", "idle us", "p99", "tokens/s", "limit us", "share");
  }

  // One engine for all cases of a loop, as a server has one.
  absl::Status RunLoop(const std::string& loop, json* cases) {
    EngineShape shape{.rows = std::ranges::max(options_.batches),
                      .context = std::ranges::max(options_.contexts),
                      .steps = options_.steps};
    EngineConfig config = ChooseEngine(options_, shape, model_);
    config.loop = LoopNamed(loop);
    StepTrace trace;
    RALLY_ASSIGN_OR_RETURN(const auto engine, model_.StartEngine(config, &trace));
    for (const int32_t batch : options_.batches) {
      for (const int32_t context : options_.contexts) {
        const DecodeCase c{.batch = batch,
                           .context = context,
                           .steps = options_.steps,
                           .repeats = options_.repeats,
                           .step_tokens = config.max_step_tokens,
                           .context_tokens = config.context_tokens,
                           .whole_prefix = options_.kv_cache == "off",
                           .vocab_size = model_.config().vocab_size};
        const TraceFile file{trace_file_.get(), absl::StrCat(loop, "/", batch, "/", context)};
        RALLY_ASSIGN_OR_RETURN(const DecodeFigures f, MeasureDecode(engine.get(), &trace, c, file));
        cases->push_back(Report(loop, c, f));
      }
    }
    return absl::OkStatus();
  }

  json Report(const std::string& loop, const DecodeCase& c, const DecodeFigures& f) const {
    const double bytes =
        model_.weight_bytes() + c.batch * f.context_mean * model_.kv_bytes_per_token();
    const double limit_us = bytes / bandwidth_ * 1e6;
    const double tokens_per_s = c.batch / f.step_us.median * 1e6;
    const double share = limit_us / f.step_us.median;
    std::printf("%-12s %6d %8.0f %6d %11.2f %11.2f %9.2f %9.2f %11.0f %10.2f %6.1f%%\n",
                loop.c_str(), c.batch, f.context_mean, f.steps, f.step_us.median, f.step_us.p99,
                f.idle_us.median, f.idle_us.p99, tokens_per_s, limit_us, share * 100);
    std::fflush(stdout);
    const auto summary = [](const Summary& s) {
      return json{{"median", s.median}, {"p99", s.p99}};
    };
    return {{"loop", loop},
            {"batch", c.batch},
            {"context", c.context},
            {"context_mean", f.context_mean},
            {"steps", f.steps},
            {"repeats", c.repeats},
            {"step_us", summary(f.step_us)},
            {"busy_us", summary(f.busy_us)},
            {"idle_us", summary(f.idle_us)},
            {"tokens_per_s", tokens_per_s},
            {"limit_us", limit_us},
            {"share_of_limit", share}};
  }

  absl::Status RunPrefills(json* results) {
    const int32_t longest = std::ranges::max(options_.prefills);
    EngineShape shape{.rows = 1, .context = longest, .steps = 0, .step_tokens = longest};
    const EngineConfig config = ChooseEngine(options_, shape, model_);
    StepTrace trace;
    RALLY_ASSIGN_OR_RETURN(const auto engine, model_.StartEngine(config, &trace));
    const DecodeCase c{.repeats = options_.repeats, .vocab_size = model_.config().vocab_size};
    // Layers only: one row of the head is nothing beside them.
    const double parameters = LayerParameters(model_.config());
    for (const int32_t tokens : options_.prefills) {
      RALLY_ASSIGN_OR_RETURN(const Summary us, MeasurePrefill(engine.get(), &trace, tokens, c));
      const double tflops = 2 * parameters * tokens / us.median * 1e-6;
      std::printf("prefill of %d tokens: %.1f us, %.0f tokens/s, %.1f TFLOP/s of matrix products\n",
                  tokens, us.median, tokens / us.median * 1e6, tflops);
      results->push_back({{"tokens", tokens},
                          {"us", us.median},
                          {"tokens_per_s", tokens / us.median * 1e6},
                          {"tflop_per_s", tflops}});
    }
    return absl::OkStatus();
  }

  static double LayerParameters(const ModelConfig& config) {
    return StepParameters(config) - double{1} * config.vocab_size * config.width;
  }

  const BenchOptions& options_;
  LoadedModel& model_;
  double bandwidth_ = 0;
  std::unique_ptr<std::FILE, CloseFile> trace_file_;
};

}  // namespace

absl::StatusOr<json> RunBench(const BenchOptions& options) {
  RALLY_ASSIGN_OR_RETURN(const auto model, LoadedModel::Load(options));
  return BenchRun(options, model.get()).Run();
}

}  // namespace rally
