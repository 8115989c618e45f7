// The listening gRPC server: limits, keepalive, health, reflection, shutdown.
#ifndef RALLY_SERVER_GRPC_SERVER_H_
#define RALLY_SERVER_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace rally {

class GrpcServer {
 public:
  struct Options {
    std::string listen;  // host:port; port 0: any
    int64_t max_message_bytes = 4 << 20;
    int max_concurrent_streams = 1024;  // of one connection
    absl::Duration keepalive_time = absl::Seconds(30);
    absl::Duration max_connection_age = absl::InfiniteDuration();
    absl::Duration max_connection_age_grace = absl::Minutes(10);
  };

  // Binds and serves; health says SERVING from here on. `service` outlives the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options,
                                                           grpc::Service* service);
  virtual ~GrpcServer() = default;
  virtual int port() const = 0;
  // Health answers NOT_SERVING, for every name and for good.
  virtual void StopServing() = 0;
  // Refuses new calls and returns when none is left; at the deadline the rest is cancelled.
  virtual void Shutdown(absl::Time deadline) = 0;
};

}  // namespace rally

#endif  // RALLY_SERVER_GRPC_SERVER_H_
