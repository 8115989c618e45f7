// Spreads requests over the engines of this process, one a device rank.
#ifndef RALLY_SERVER_ROUTER_H_
#define RALLY_SERVER_ROUTER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace rally {

// An accepted request: where it runs and its name there.
struct Placement {
  Engine* engine = nullptr;
  RequestKey key = 0;
};

// Threads: any. Holds no state of its own; the engines outlive it.
class Router {
 public:
  explicit Router(std::vector<Engine*> engines) : engines_(std::move(engines)) {}

  // Asks the ranks that are up, the one with the fewest outstanding tokens first, until one
  // accepts. UNAVAILABLE: none is up. RESOURCE_EXHAUSTED: at least one is up, and all are full. An
  // error that no other rank would answer differently (INVALID_ARGUMENT) is returned at once.
  absl::StatusOr<Placement> Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) const;
  bool AnyUp() const;
  const std::vector<Engine*>& engines() const { return engines_; }

 private:
  std::vector<Engine*> engines_;
};

}  // namespace rally

#endif  // RALLY_SERVER_ROUTER_H_
