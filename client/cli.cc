#include "client/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "client/commands/command.h"
#include "client/exit_codes.h"

namespace rally {

int RunCli(const std::vector<std::string>& args, Io& io) {
  CLI::App app("Client of a Rally inference server.", "rally");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kExitCodesHelp);
  Connection connection;
  app.add_option("--addr", connection.address, "Server, host:port")
      ->envname("RALLY_ADDR")
      ->capture_default_str();
  const Command commands[] = {
      AddGenerateCommand(app, connection),
      AddHealthCommand(app, connection),
  };
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 takes them from the back
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e, io.out, io.err);
    if (code == 0) return kExitOk;  // --help
    for (const Command& command : commands) {
      if (command.app->count_all() > 0) return command.usage_exit_code;
    }
    return kExitUsage;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run(io);
  }
  return kExitUsage;
}

}  // namespace rally
