// rally-server: flags -> configuration -> model and engines -> service -> serve -> drain.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/drain.h"
#include "server/grpc_server.h"
#include "server/inference_service.h"
#include "server/metrics.h"
#include "server/router.h"
#include "server/server_config.h"
#include "server/server_stats.h"
#include "server/serving_model.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace rally {
namespace {

enum ExitCode : int {
  kDrained = 0,
  kBadConfig = 2,
  kBadModel = 3,
  kLastRankLost = 4,
  kCannotBind = 5,
};

// A text prompt of max_prompt_bytes, or a context full of ids (5 bytes each at most), and the rest.
int64_t MaxMessageBytes(const ServerConfig& config, const Engine& engine) {
  const int64_t ids_bytes = int64_t{engine.context_tokens()} * 5;
  return std::max(config.max_prompt_bytes, ids_bytes) + (int64_t{64} << 10);
}

// SIGTERM and SIGINT are blocked in every thread and taken here, so that no handler runs anywhere.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // True if one came within `duration`.
  bool Wait(absl::Duration duration) const {
    const timespec timeout = absl::ToTimespec(duration);
    return sigtimedwait(&set_, nullptr, &timeout) > 0;
  }

 private:
  sigset_t set_;
};

// True: asked to stop. False: the last rank is lost.
bool ServeUntilStopped(const StopSignals& signals, const Router& router) {
  while (router.AnyUp()) {
    if (signals.Wait(absl::Milliseconds(100))) return true;
  }
  return false;
}

GrpcServer::Options GrpcOptions(const ServerConfig& config, const Engine& engine) {
  GrpcServer::Options options;
  options.listen = config.listen;
  options.max_message_bytes = MaxMessageBytes(config, engine);
  options.max_concurrent_streams = static_cast<int>(config.max_inflight_requests);
  options.keepalive_time = config.keepalive_time;
  options.max_connection_age = config.max_connection_age;
  options.max_connection_age_grace = config.max_connection_age_grace;
  return options;
}

InferenceService::Options ServiceOptions(const ServerConfig& config) {
  InferenceService::Options options;
  options.max_inflight_requests = config.max_inflight_requests;
  options.max_prompt_bytes = config.max_prompt_bytes;
  options.tokenize.threads = config.tokenize_threads;
  options.slow_reader_timeout = config.slow_reader_timeout;
  options.log_requests = config.log_requests;
  return options;
}

int Fail(ExitCode code, const absl::Status& status) {
  spdlog::error("{}", WithFlagNames(std::string(status.message())));
  return code;
}

int Serve(const ServerConfig& config, const StopSignals& signals) {
  ServerStats stats;  // first: streams count their end, and engines hold streams
  absl::StatusOr<ServingModel> model = LoadServingModel(config);
  if (!model.ok()) return Fail(kBadModel, model.status());
  std::vector<Engine*> engines;
  for (const auto& engine : model->engines) engines.push_back(engine.get());
  const Router router(engines);
  InferenceService service(ServiceOptions(config), model->name, model->config, model->tokenizer,
                           &router, &stats);

  std::unique_ptr<MetricsEndpoint> metrics;
  if (config.metrics_listen != "off") {
    auto started = MetricsEndpoint::Start(
        config.metrics_listen,
        {RALLY_VERSION, model->name, &stats, {engines.begin(), engines.end()}});
    if (!started.ok()) return Fail(kCannotBind, started.status());
    metrics = *std::move(started);
  }
  auto server = GrpcServer::Start(GrpcOptions(config, *engines.front()), service.grpc_service());
  if (!server.ok()) return Fail(kCannotBind, server.status());
  spdlog::info("serving {} on port {} with {} rank(s)", model->name, (*server)->port(),
               engines.size());

  const bool stopped = ServeUntilStopped(signals, router);
  if (!stopped)
    spdlog::critical("the last device rank is lost: {}", engines.front()->status().ToString());
  const DrainTimes times = stopped ? DrainTimes{config.drain_delay, config.drain_timeout}
                                   : DrainTimes{absl::ZeroDuration(), absl::Seconds(5)};
  Drain(
      times, [&](absl::Duration wait) { return signals.Wait(wait); }, router, service, **server);
  if (!stopped) {
    // A lost device may hang whoever tears it down.
    spdlog::shutdown();
    std::_Exit(kLastRankLost);
  }
  return kDrained;
}

int Main(int argc, char** argv) {
  const StopSignals signals;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const ConfigResult parsed = ParseServerConfig({argv + 1, argv + argc}, environment);
  switch (parsed.kind) {
    case ConfigResult::Kind::kHelp:
      std::fputs(parsed.text.c_str(), stdout);
      return kDrained;
    case ConfigResult::Kind::kError:
      std::fprintf(stderr, "rally-server: %s\n", parsed.text.c_str());
      return kBadConfig;
    case ConfigResult::Kind::kRun:
      break;
  }
  if (const absl::Status limits = parsed.config.engine.Validate(); !limits.ok()) {
    std::fprintf(stderr, "rally-server: %s\n",
                 WithFlagNames(std::string(limits.message())).c_str());
    return kBadConfig;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("rally"));
  spdlog::info("configuration:\n{}", parsed.config.resolved);
  return Serve(parsed.config, signals);
}

}  // namespace
}  // namespace rally

int main(int argc, char** argv) { return rally::Main(argc, argv); }
