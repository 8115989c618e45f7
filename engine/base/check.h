// For our own bugs only: prints the broken invariant and stops the process. What comes from outside
// gets an absl::Status instead.
#ifndef RALLY_ENGINE_BASE_CHECK_H_
#define RALLY_ENGINE_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define RALLY_CHECK(condition)                                                               \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#endif  // RALLY_ENGINE_BASE_CHECK_H_
