#include "client/inference_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "rally/v1/generation.grpc.pb.h"

namespace rally {
namespace {

// Two pings a minute keep a connection through proxies and notice a dead peer in a silent prefill.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

std::string RetryPolicy(int max_attempts) {
  return absl::StrCat(
      R"({"methodConfig":[{"name":[{"service":"rally.v1.GenerationService"}],"retryPolicy":{)",
      R"("maxAttempts":)", max_attempts,
      R"(,"initialBackoff":"0.2s","maxBackoff":"2s","backoffMultiplier":2,)",
      R"("retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}]})");
}

CallResult ToResult(const grpc::Status& status) {
  CallResult result;
  result.status =
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    google::rpc::BadRequest bad;
    if (any.UnpackTo(&info)) {
      result.reason = info.reason();
      result.metadata = {info.metadata().begin(), info.metadata().end()};
    } else if (any.UnpackTo(&retry)) {
      result.retry_delay = absl::Seconds(retry.retry_delay().seconds()) +
                           absl::Nanoseconds(retry.retry_delay().nanos());
    } else if (any.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) {
        result.field_violations.emplace_back(violation.field(), violation.description());
      }
    }
  }
  return result;
}

void SetDeadline(grpc::ClientContext& context, absl::Duration deadline) {
  if (deadline != absl::InfiniteDuration()) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  }
}

class GrpcGenerateStream final : public GenerateStream {
 public:
  GrpcGenerateStream(v1::GenerationService::Stub& stub, const v1::GenerateRequest& request,
                     absl::Duration deadline) {
    SetDeadline(context_, deadline);
    reader_ = stub.Generate(&context_, request);
  }
  ~GrpcGenerateStream() override { Finish(); }

  bool Next(v1::GenerateResponse* message) override {
    exhausted_ = exhausted_ || !reader_->Read(message);
    return !exhausted_;
  }
  CallResult Finish() override {
    if (!result_) {
      if (!exhausted_) context_.TryCancel();
      result_ = ToResult(reader_->Finish());
    }
    return *result_;
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  bool exhausted_ = false;
  std::optional<CallResult> result_;
};

class GrpcClient final : public InferenceClient {
 public:
  explicit GrpcClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::GenerationService::NewStub(channel)),
        health_stub_(grpc::health::v1::Health::NewStub(channel)) {}

  std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                           absl::Duration deadline) override {
    return std::make_unique<GrpcGenerateStream>(*stub_, request, deadline);
  }
  CallResult GetModel(absl::Duration deadline, v1::GetModelResponse* response) override {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    return ToResult(stub_->GetModel(&context, v1::GetModelRequest(), response));
  }
  CallResult Tokenize(const v1::TokenizeRequest& request, absl::Duration deadline,
                      v1::TokenizeResponse* response) override {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    return ToResult(stub_->Tokenize(&context, request, response));
  }
  CallResult Detokenize(const v1::DetokenizeRequest& request, absl::Duration deadline,
                        v1::DetokenizeResponse* response) override {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    return ToResult(stub_->Detokenize(&context, request, response));
  }
  CallResult CheckHealth(const std::string& service, absl::Duration deadline,
                         Health* health) override {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const CallResult result = ToResult(health_stub_->Check(&context, request, &response));
    switch (response.status()) {
      case grpc::health::v1::HealthCheckResponse::SERVING:
        *health = Health::kServing;
        break;
      case grpc::health::v1::HealthCheckResponse::NOT_SERVING:
        *health = Health::kNotServing;
        break;
      case grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN:
        *health = Health::kServiceUnknown;
        break;
      default:
        *health = Health::kUnknown;
    }
    return result;
  }

 private:
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_stub_;
};

}  // namespace

std::unique_ptr<InferenceClient> InferenceClient::Create(const std::string& address,
                                                         int max_attempts) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetMaxReceiveMessageSize(-1);  // the server bounds what it sends
  if (max_attempts > 1) args.SetServiceConfigJSON(RetryPolicy(max_attempts));
  return std::make_unique<GrpcClient>(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
}

}  // namespace rally
