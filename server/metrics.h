// Prometheus: families built at scrape time from the counters of the server and the engines. A
// scrape reads atomics only, so that it never makes an engine wait.
#ifndef RALLY_SERVER_METRICS_H_
#define RALLY_SERVER_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/server_stats.h"

namespace rally {

// What a scrape reads; all of it outlives the endpoint. No label value comes from a caller.
struct MetricsSource {
  std::string version;
  std::string model_name;
  const ServerStats* server = nullptr;
  std::vector<const Engine*> engines;  // label rank: the device's name
};

// The text exposition format, version 0.0.4, as the endpoint serves it.
std::string RenderMetrics(const MetricsSource& source);

// Serves GET /metrics on an address of its own.
class MetricsEndpoint {
 public:
  // `address` is host:port; port 0 takes any free one.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const std::string& address,
                                                                MetricsSource source);
  virtual ~MetricsEndpoint() = default;
  virtual int port() const = 0;
};

}  // namespace rally

#endif  // RALLY_SERVER_METRICS_H_
