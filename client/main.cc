#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "client/cli.h"

int main(int argc, char** argv) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool colors_allowed = no_color == nullptr || *no_color == '\0';
  rally::Io io{
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .out_is_terminal = isatty(STDOUT_FILENO) != 0,
      .color = isatty(STDERR_FILENO) != 0 && colors_allowed,
      .catch_interrupt = true,
  };
  return rally::RunCli({argv + 1, argv + argc}, io);
}
