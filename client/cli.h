// The rally program: one subcommand a file of client/commands/.
#ifndef RALLY_CLIENT_CLI_H_
#define RALLY_CLIENT_CLI_H_

#include <string>
#include <vector>

#include "client/io.h"

namespace rally {

// `args` without the program's name. Returns the exit status.
int RunCli(const std::vector<std::string>& args, Io& io);

}  // namespace rally

#endif  // RALLY_CLIENT_CLI_H_
