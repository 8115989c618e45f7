// What a subcommand is: its options in CLI11, and what runs once they are read.
#ifndef RALLY_CLIENT_COMMANDS_COMMAND_H_
#define RALLY_CLIENT_COMMANDS_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "client/exit_codes.h"
#include "client/io.h"

namespace rally {

// The options that all subcommands share; read them when the command runs.
struct Connection {
  std::string address = "127.0.0.1:50051";
};

struct Command {
  CLI::App* app = nullptr;
  std::function<int(Io&)> run;  // returns the exit status
  int usage_exit_code = kExitUsage;
};

// Each adds its subcommand to `parent`; `connection` outlives the command.
Command AddGenerateCommand(CLI::App& parent, const Connection& connection);
Command AddHealthCommand(CLI::App& parent, const Connection& connection);

}  // namespace rally

#endif  // RALLY_CLIENT_COMMANDS_COMMAND_H_
