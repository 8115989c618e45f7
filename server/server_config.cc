#include "server/server_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace rally {
namespace {

// Values as they are written; turned into their types after the parse.
struct RawFlags {
  std::string loop = "pingpong";
  std::string kv_pool = "fixed";
  std::string kv_cache = "on";
  std::string graphs = "on";
  int32_t max_chunk_tokens = 0;
  std::string step_timeout = "60s";
  std::string slow_reader_timeout = "30s";
  std::string keepalive_time = "30s";
  std::string max_connection_age = "inf";
  std::string max_connection_age_grace = "10m";
  std::string drain_delay = "0s";
  std::string drain_timeout = "30s";
};

absl::Duration ToDuration(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

// A duration such as 300ms, 2m or inf, from `least` on.
CLI::Validator DurationFrom(absl::Duration least) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        absl::Duration duration;
        if (!absl::ParseDuration(text, &duration)) {
          return "\"" + text + "\" is not a duration such as 300ms, 2m or inf";
        }
        if (duration < least) return text + " is less than " + absl::FormatDuration(least);
        return "";
      },
      "DURATION");
}

CLI::Validator From(int64_t least) {
  return CLI::Range(least, int64_t{std::numeric_limits<int32_t>::max()});
}

void AddModelFlags(CLI::App& app, ServerConfig& config) {
  app.add_option("--model", config.model,
                 "Model: a GGUF file, or a directory with config.json and safetensors")
      ->required()
      ->group("Model");
  app.add_option("--tokenizer", config.tokenizer,
                 "Tokenizer file or directory, if not the model's own")
      ->group("Model");
  app.add_option("--model-name", config.model_name, "Name in the API; default: from the path")
      ->group("Model");
  app.add_option("--load-format", config.load_format,
                 "auto, or dummy: random weights of the model's shape")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->group("Model");
  app.add_option("--dtype", config.dtype, "Compute type: auto, bf16, fp16 or fp32")
      ->check(CLI::IsMember({"auto", "bf16", "fp16", "fp32"}))
      ->group("Model");
  app.add_option("--devices", config.devices,
                 "Device ranks: host, or host:N for N ranks that share the cores; cuda, all GPUs, "
                 "or cuda:N, the first N; auto: cuda where there is a GPU, else host")
      ->group("Model");
}

void AddKvFlags(CLI::App& app, EngineConfig& engine, RawFlags& raw) {
  app.add_option("--kv-pool", raw.kv_pool,
                 "fixed: all of the KV pool at start; mapped: it grows in place as requests are "
                 "admitted; realloc: it grows by copying, for comparison")
      ->check(CLI::IsMember({"fixed", "mapped", "realloc"}))
      ->group("Engine");
  app.add_option("--kv-pool-bytes", engine.kv_pool_bytes,
                 "Most that the KV pool of a rank takes, such as 256MiB; 0: on a GPU what "
                 "--kv-memory-fraction says, on the host 256MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 44))
      ->group("Engine");
  app.add_option("--kv-memory-fraction", engine.kv_memory_fraction,
                 "Share of the GPU memory left beside the model that the KV pool may take")
      ->check(CLI::Range(0.01, 1.0))
      ->group("Engine");
  app.add_option("--kv-cache", raw.kv_cache,
                 "off: each step computes whole prefixes anew, for comparison; needs "
                 "--max-step-tokens of a context at least")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Engine");
}

void AddEngineFlags(CLI::App& app, EngineConfig& engine, RawFlags& raw) {
  app.add_option("--loop", raw.loop, "pingpong: launch a step before the last one's end is seen")
      ->check(CLI::IsMember({"pingpong", "sync"}))
      ->group("Engine");
  app.add_option("--graphs", raw.graphs,
                 "off: each op of a step is launched on its own, for comparison")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Engine");
  app.add_option("--max-rows", engine.max_rows, "Sequences that run at once")
      ->check(From(1))
      ->group("Engine");
  app.add_option("--max-step-tokens", engine.max_step_tokens, "Tokens of one step")
      ->check(From(1))
      ->group("Engine");
  app.add_option("--max-chunk-tokens", raw.max_chunk_tokens,
                 "Tokens of one prompt in one step; 0: those of a step")
      ->check(From(0))
      ->group("Engine");
  app.add_option("--context-tokens", engine.context_tokens,
                 "Prompt and output together; 0: the model's")
      ->check(From(0))
      ->group("Engine");
  app.add_option("--kv-block-tokens", engine.kv_block_tokens, "Positions of a KV block")
      ->check(From(1))
      ->group("Engine");
  AddKvFlags(app, engine, raw);
  app.add_option("--max-queued-requests", engine.max_queued_requests, "Requests that may wait")
      ->check(From(0))
      ->group("Engine");
  app.add_option("--max-queued-tokens", engine.max_queued_tokens, "Prompt tokens that may wait")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
      ->group("Engine");
  app.add_option("--emitter-threads", engine.emitter_threads, "Threads that make text of tokens")
      ->check(CLI::Range(1, 64))
      ->group("Engine");
  app.add_option("--step-timeout", raw.step_timeout, "A rank whose step takes longer is lost")
      ->check(DurationFrom(absl::Milliseconds(1)))
      ->group("Engine");
}

void AddServerFlags(CLI::App& app, ServerConfig& config, RawFlags& raw) {
  app.add_option("--listen", config.listen, "gRPC address, host:port; port 0: any")
      ->group("Server");
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Address of GET /metrics, host:port, or off")
      ->group("Server");
  app.add_option("--max-inflight-requests", config.max_inflight_requests,
                 "Calls in the server at once; more are refused at the door")
      ->check(From(1))
      ->group("Server");
  app.add_option("--max-prompt-bytes", config.max_prompt_bytes, "Longest text prompt, such as 1MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->group("Server");
  app.add_option("--tokenize-threads", config.tokenize_threads, "Threads that read prompts")
      ->check(CLI::Range(1, 64))
      ->group("Server");
  app.add_option("--slow-reader-timeout", raw.slow_reader_timeout,
                 "A caller that reads nothing for so long loses its call")
      ->check(DurationFrom(absl::Milliseconds(10)))
      ->group("Server");
  app.add_option("--log-requests", config.log_requests, "One log line for each finished request")
      ->group("Server");
  app.add_option("--keepalive-time", raw.keepalive_time, "Ping a silent connection after so long")
      ->check(DurationFrom(absl::Seconds(1)))
      ->group("Server");
  app.add_option("--max-connection-age", raw.max_connection_age,
                 "Ask clients to reconnect after so long, to spread the load anew")
      ->check(DurationFrom(absl::Seconds(1)))
      ->group("Server");
  app.add_option("--max-connection-age-grace", raw.max_connection_age_grace,
                 "Then calls may go on for so long")
      ->check(DurationFrom(absl::ZeroDuration()))
      ->group("Server");
  app.add_option("--drain-delay", raw.drain_delay,
                 "After SIGTERM: accept for so long, until load balancers have seen NOT_SERVING")
      ->check(DurationFrom(absl::ZeroDuration()))
      ->group("Server");
  app.add_option("--drain-timeout", raw.drain_timeout,
                 "Then running requests may take so long to end")
      ->check(DurationFrom(absl::ZeroDuration()))
      ->group("Server");
}

void ApplyRaw(const RawFlags& raw, ServerConfig& config) {
  config.engine.loop = raw.loop == "sync" ? LoopKind::kSync : LoopKind::kPingPong;
  config.engine.kv_pool = raw.kv_pool == "mapped"    ? KvPoolKind::kMapped
                          : raw.kv_pool == "realloc" ? KvPoolKind::kReallocated
                                                     : KvPoolKind::kFixed;
  config.engine.kv_cache = raw.kv_cache == "on";
  config.engine.graphs = raw.graphs == "on";
  config.engine.max_chunk_tokens =
      raw.max_chunk_tokens > 0 ? raw.max_chunk_tokens : config.engine.max_step_tokens;
  config.engine.step_timeout = ToDuration(raw.step_timeout);
  config.slow_reader_timeout = ToDuration(raw.slow_reader_timeout);
  config.keepalive_time = ToDuration(raw.keepalive_time);
  config.max_connection_age = ToDuration(raw.max_connection_age);
  config.max_connection_age_grace = ToDuration(raw.max_connection_age_grace);
  config.drain_delay = ToDuration(raw.drain_delay);
  config.drain_timeout = ToDuration(raw.drain_timeout);
}

std::string EnvironmentName(const std::string& flag) {
  std::string name = "RALLY_" + flag;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

// CLI11 lets a file win over the environment. So the environment is read as flags that stand before
// the real ones; of several values the last one holds.
std::vector<std::string> EnvironmentArgs(const CLI::App& app,
                                         const std::vector<std::string>& environment) {
  std::map<std::string, std::string> values;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      values[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  std::vector<std::string> args;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& flag = option->get_lnames().front();
    const auto it = values.find(EnvironmentName(flag));
    if (flag != "help" && it != values.end() && !it->second.empty()) {
      args.push_back("--" + flag + "=" + it->second);
    }
  }
  return args;
}

constexpr const char* kFooter =
    "Every flag can also be set by the environment (--max-rows: RALLY_MAX_ROWS) and by the file "
    "of\n"
    "--config (TOML: max-rows=32). A flag wins over the environment, that over the file.\n"
    "Exit status: 0 drained, 2 bad configuration, 3 the model cannot be served, 4 the last device\n"
    "rank was lost, 5 an address cannot be bound.\n";

// How the engine calls what flags set.
constexpr std::string_view kEngineNames[] = {
    "max_rows",        "max_step_tokens", "max_chunk_tokens",   "context_tokens",
    "kv_block_tokens", "kv_pool_bytes",   "kv_memory_fraction", "kv_cache",
    "step_timeout",    "emitter_threads", "max_queued_tokens",  "max_queued_requests"};

std::string FlagOf(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/';
}

}  // namespace

std::string WithFlagNames(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size();) {
    size_t end = i;
    while (end < message.size() && IsWordChar(message[end])) ++end;
    const std::string_view word = message.substr(i, std::max<size_t>(1, end - i));
    const bool is_name =
        std::find(std::begin(kEngineNames), std::end(kEngineNames), word) != std::end(kEngineNames);
    out += is_name ? FlagOf(word) : std::string(word);
    i += word.size();
  }
  return out;
}

ConfigResult ParseServerConfig(const std::vector<std::string>& args,
                               const std::vector<std::string>& environment) {
  ConfigResult result;
  RawFlags raw;
  CLI::App app("A gRPC inference server for decoder language models.", "rally-server");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  app.footer(kFooter);
  app.set_config("--config", "", "Configuration file", false);
  AddModelFlags(app, result.config);
  AddServerFlags(app, result.config, raw);
  AddEngineFlags(app, result.config.engine, raw);

  std::vector<std::string> all = EnvironmentArgs(app, environment);
  all.insert(all.end(), args.begin(), args.end());
  std::reverse(all.begin(), all.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(all));
    ApplyRaw(raw, result.config);
    result.config.resolved = app.config_to_str(true, false);
  } catch (const CLI::CallForHelp&) {
    result.kind = ConfigResult::Kind::kHelp;
    result.text = app.help();
  } catch (const CLI::ParseError& e) {
    result.kind = ConfigResult::Kind::kError;
    result.text = e.what();
  }
  return result;
}

}  // namespace rally
