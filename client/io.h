// The program's surroundings, passed in so that tests can stand in for a terminal.
#ifndef RALLY_CLIENT_IO_H_
#define RALLY_CLIENT_IO_H_

#include <istream>
#include <ostream>

namespace rally {

struct Io {
  std::istream& in;
  std::ostream& out;  // what was asked for
  std::ostream& err;  // everything else
  bool out_is_terminal = false;
  bool color = false;            // err understands colours and NO_COLOR is not set
  bool catch_interrupt = false;  // Ctrl-C cancels the running call
};

}  // namespace rally

#endif  // RALLY_CLIENT_IO_H_
