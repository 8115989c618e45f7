// rally health: asks grpc.health.v1, with the exit codes of grpc_health_probe.
#include <memory>

#include "client/commands/command.h"
#include "client/commands/duration_option.h"
#include "client/commands/error_report.h"
#include "client/inference_client.h"

namespace rally {
namespace {

enum HealthExitCode : int {
  kServing = 0,
  kUsage = 1,
  kNoConnection = 2,
  kCallFailed = 3,
  kNotServing = 4,
};

struct HealthFlags {
  std::string service;
  std::string timeout = "1s";
};

int RunHealth(const HealthFlags& flags, const Connection& connection, Io& io) {
  const auto client = InferenceClient::Create(connection.address);
  InferenceClient::Health health;
  const CallResult result = client->CheckHealth(flags.service, DurationOf(flags.timeout), &health);
  if (!result.ok()) {
    io.err << ErrorLine(result) << "\n";
    const bool reached =
        !absl::IsUnavailable(result.status) && !absl::IsDeadlineExceeded(result.status);
    return reached ? kCallFailed : kNoConnection;
  }
  if (health != InferenceClient::Health::kServing) {
    io.out << "NOT_SERVING\n";
    return kNotServing;
  }
  io.out << "SERVING\n";
  return kServing;
}

}  // namespace

Command AddHealthCommand(CLI::App& parent, const Connection& connection) {
  auto flags = std::make_shared<HealthFlags>();
  CLI::App* app = parent.add_subcommand("health", "Ask whether the server takes requests");
  app->add_option("--service", flags->service, "Full service name; absent: the whole server");
  AddDurationOption(*app, "--timeout", flags->timeout, "Wait so long");
  app->footer(
      "Exit status: 0 serving, 1 wrong usage, 2 no connection or timeout, 3 the call failed,\n"
      "4 not serving.");
  return {app, [flags, &connection](Io& io) { return RunHealth(*flags, connection, io); }, kUsage};
}

}  // namespace rally
