// A client of rally.v1.GenerationService. One client holds one channel; use it for many calls.
#ifndef RALLY_CLIENT_INFERENCE_CLIENT_H_
#define RALLY_CLIENT_INFERENCE_CLIENT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rally/v1/generation.pb.h"

namespace rally {

// How a call ended, with the parts of its google.rpc details.
struct CallResult {
  absl::Status status;  // code and message
  std::string reason;   // ErrorInfo, such as QUEUE_FULL; empty if the server sent none
  std::map<std::string, std::string> metadata;
  std::optional<absl::Duration> retry_delay;
  std::vector<std::pair<std::string, std::string>> field_violations;  // field, description

  bool ok() const { return status.ok(); }
};

// One Generate call. Next and Finish belong to one thread; Cancel may come from any other.
class GenerateStream {
 public:
  virtual ~GenerateStream() = default;
  // Blocks for the next message; false: there is none any more, see Finish.
  virtual bool Next(v1::GenerateResponse* message) = 0;
  // How the call ended. After Next has returned false, or to give up early (the call is cancelled).
  virtual CallResult Finish() = 0;
  virtual void Cancel() = 0;
};

class InferenceClient {
 public:
  // `address` as gRPC names targets: host:port or dns:///name:port. Connects when it is first used.
  // UNAVAILABLE and RESOURCE_EXHAUSTED are tried again, up to `max_attempts` (1 to 5) in all, as
  // long as no message came; the server's pushback sets the pause.
  static std::unique_ptr<InferenceClient> Create(const std::string& address, int max_attempts = 1);
  virtual ~InferenceClient() = default;

  // Deadlines count from now; InfiniteDuration: none.
  virtual std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                                   absl::Duration deadline) = 0;
  virtual CallResult GetModel(absl::Duration deadline, v1::GetModelResponse* response) = 0;
  virtual CallResult Tokenize(const v1::TokenizeRequest& request, absl::Duration deadline,
                              v1::TokenizeResponse* response) = 0;
  virtual CallResult Detokenize(const v1::DetokenizeRequest& request, absl::Duration deadline,
                                v1::DetokenizeResponse* response) = 0;

  enum class Health { kUnknown, kServing, kNotServing, kServiceUnknown };
  // grpc.health.v1 Check; "" asks for the whole server.
  virtual CallResult CheckHealth(const std::string& service, absl::Duration deadline,
                                 Health* health) = 0;
};

}  // namespace rally

#endif  // RALLY_CLIENT_INFERENCE_CLIENT_H_
