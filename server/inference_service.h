// The gRPC face of the server: one short method per RPC. Nothing here blocks a gRPC thread.
#ifndef RALLY_SERVER_INFERENCE_SERVICE_H_
#define RALLY_SERVER_INFERENCE_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "engine/model/model_config.h"
#include "engine/text/tokenizer.h"
#include "server/request_parser.h"
#include "server/router.h"
#include "server/server_stats.h"
#include "server/tokenize_pool.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace rally {

class InferenceService {
 public:
  struct Options {
    int64_t max_inflight_requests = 1024;
    int64_t max_prompt_bytes = int64_t{1} << 20;
    TokenizePool::Limits tokenize = {};
    absl::Duration slow_reader_timeout = absl::Seconds(30);
    bool log_requests = true;  // one line when a Generate call has ended; never prompts or outputs
  };

  // `router`, its engines and `stats` outlive the service; at least one engine is there.
  InferenceService(const Options& options, std::string model_name, const ModelConfig& model,
                   std::shared_ptr<const Tokenizer> tokenizer, const Router* router,
                   ServerStats* stats);
  // The gRPC server has been shut down before: no call is left.
  ~InferenceService();

  // For the server builder; owned by this.
  grpc::Service* grpc_service();
  // From now on calls with work to do are answered UNAVAILABLE; those in flight go on.
  void StopAccepting();
  int64_t inflight() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rally

#endif  // RALLY_SERVER_INFERENCE_SERVICE_H_
