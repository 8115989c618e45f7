#include "server/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rally {
namespace {

// Threads for the services of the synchronous kind: health and reflection.
constexpr int kMaxSyncThreads = 16;
constexpr int kMetadataBytesMax = 8 << 10;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Clients may ping this often during a long call; gRPC's own default of 5 minutes would end it.
constexpr int kMinClientPingIntervalMs = 5'000;

// Infinite stays gRPC's word for infinite.
int Millis(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

class Listening final : public GrpcServer {
 public:
  Listening(std::unique_ptr<grpc::Server> server, int port)
      : server_(std::move(server)), port_(port) {
    SetServing(true);
  }
  ~Listening() override { Shutdown(absl::Now()); }

  int port() const override { return port_; }
  void StopServing() override {
    SetServing(false);
    server_->GetHealthCheckService()->Shutdown();
  }
  void Shutdown(absl::Time deadline) override {
    if (std::exchange(shut_down_, true)) return;
    server_->Shutdown(absl::ToChronoTime(deadline));
    server_->Wait();
  }

 private:
  void SetServing(bool serving) {
    server_->GetHealthCheckService()->SetServingStatus("rally.v1.GenerationService", serving);
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }

  const std::unique_ptr<grpc::Server> server_;
  const int port_;
  bool shut_down_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              grpc::Service* service) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ResourceQuota quota("rally-server");
  quota.SetMaxThreads(kMaxSyncThreads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<int64_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
  // A second server on the port is an error, not a silent half of the traffic.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinClientPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Millis(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Millis(options.max_connection_age_grace));
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("--listen: cannot listen on ", options.listen));
  }
  return std::make_unique<Listening>(std::move(server), port);
}

}  // namespace rally
