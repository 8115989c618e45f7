#include "server/inference_service.h"

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "rally/v1/generation.grpc.pb.h"
#include "server/error_details.h"
#include "server/slow_reader_watch.h"
#include "server/token_stream.h"
#include "spdlog/spdlog.h"

namespace rally {
namespace {

// Ends any reactor with a status and what belongs to it.
template <typename Reactor>
void FinishReactor(Reactor& reactor, grpc::CallbackServerContext& context,
                   const absl::Status& status) {
  if (absl::IsInternal(status) || absl::IsUnknown(status)) {
    spdlog::error("call failed: {}", status.ToString());
  }
  const WireStatus wire = ToWireStatus(status);
  if (wire.retry_pushback_ms) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*wire.retry_pushback_ms));
  }
  reactor.Finish(
      grpc::Status(static_cast<grpc::StatusCode>(wire.code), wire.message, wire.details));
}

// On the clock of arrivals, which no change of the wall clock moves.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return MonotonicClock::Get().Now() + (absl::FromChrono(deadline) - absl::Now());
}

absl::Status DrainingError() {
  return RetryableError(absl::StatusCode::kUnavailable, "DRAINING", "the server is draining",
                        absl::Seconds(1));
}

absl::Status CheckDeadline(absl::Time deadline) {
  if (MonotonicClock::Get().Now() < deadline) return absl::OkStatus();
  return ErrorWithReason(absl::StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED",
                         "the caller's deadline passed before the request was accepted");
}

}  // namespace

class InferenceService::Impl final : public v1::GenerationService::CallbackService {
 public:
  Impl(const Options& options, std::string model_name, const ModelConfig& model,
       std::shared_ptr<const Tokenizer> tokenizer, const Router* router, ServerStats* stats);

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;

  void StopAccepting() { draining_.store(true); }
  int64_t inflight() const { return stats_->inflight.load(); }

 private:
  class GenerateCall;
  class RefusedCall;
  class UnaryCall;

  // Takes a place in flight, or says why there is none. Comes before anything that costs.
  absl::Status Enter();
  void Leave() { stats_->inflight.fetch_sub(1); }
  // From a parsed request to the engine, by way of the tokenize pool if the prompt is a text.
  void Start(const v1::GenerateRequest& request, absl::Time deadline,
             const std::shared_ptr<TokenStream>& stream);
  void TokenizeAndSubmit(ParsedRequest& request, const std::shared_ptr<TokenStream>& stream);
  void Submit(RequestSpec spec, const std::shared_ptr<TokenStream>& stream);
  // Runs `work` on the pool for a unary call of `bytes` input.
  grpc::ServerUnaryReactor* RunOnPool(grpc::CallbackServerContext* context,
                                      const absl::Status& check, int64_t bytes,
                                      std::function<void()> work);
  void LogRequest(const TokenStream& stream) const;

  const Options options_;
  const ModelConfig model_;
  const ParserLimits limits_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const Router* const router_;
  ServerStats* const stats_;
  std::atomic<bool> draining_{false};
  SlowReaderWatch slow_readers_;
  TokenizePool pool_;  // last: its jobs use the rest
};

// A Generate call that has a place in flight. Deletes itself when gRPC is done with it.
class InferenceService::Impl::GenerateCall final
    : public grpc::ServerWriteReactor<v1::GenerateResponse>,
      public StreamWriter {
 public:
  GenerateCall(Impl* service, grpc::CallbackServerContext* context)
      : service_(service),
        context_(context),
        stream_(std::make_shared<TokenStream>(this, service->stats_)) {}

  const std::shared_ptr<TokenStream>& stream() const { return stream_; }

  void Write(const v1::GenerateResponse* message) override { StartWrite(message); }
  void End(const absl::Status& status) override { FinishReactor(*this, *context_, status); }
  void Abort() override { context_->TryCancel(); }

  void OnWriteDone(bool ok) override { stream_->OnWriteDone(ok); }
  void OnCancel() override { stream_->OnCancel(); }
  void OnDone() override {
    service_->LogRequest(*stream_);
    service_->Leave();
    delete this;
  }

 private:
  Impl* const service_;
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<TokenStream> stream_;
};

// A Generate call that was refused at the door.
class InferenceService::Impl::RefusedCall final
    : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  void OnDone() override { delete this; }
};

class InferenceService::Impl::UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(Impl* service) : service_(service) {}
  void OnDone() override {
    service_->Leave();
    delete this;
  }

 private:
  Impl* const service_;
};

InferenceService::Impl::Impl(const Options& options, std::string model_name,
                             const ModelConfig& model, std::shared_ptr<const Tokenizer> tokenizer,
                             const Router* router, ServerStats* stats)
    : options_(options),
      model_(model),
      limits_{.model_name = std::move(model_name),
              .vocab_size = model.vocab_size,
              .context_tokens = router->engines().front()->context_tokens(),
              .max_prompt_bytes = options.max_prompt_bytes,
              .defaults = SamplingDefaultsOf(model)},
      tokenizer_(std::move(tokenizer)),
      router_(router),
      stats_(stats),
      slow_readers_(options.slow_reader_timeout),
      pool_(options.tokenize) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Impl::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  stats_->requests_received.Add();
  if (absl::Status status = Enter(); !status.ok()) {
    stats_->CountEnd(OutcomeOfRejection(status));
    auto* refused = new RefusedCall();
    FinishReactor(*refused, *context, status);
    return refused;
  }
  auto* call = new GenerateCall(this, context);
  // A copy: the call may be over, and deleted, before Start returns.
  const std::shared_ptr<TokenStream> stream = call->stream();
  Start(*request, DeadlineOf(*context), stream);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Impl::GetModel(grpc::CallbackServerContext* context,
                                                           const v1::GetModelRequest* request,
                                                           v1::GetModelResponse* response) {
  response->set_model(limits_.model_name);
  response->set_architecture(model_.architecture);
  response->set_vocab_size(limits_.vocab_size);
  response->set_context_tokens(limits_.context_tokens);
  response->mutable_eos_token_ids()->Add(model_.eos_ids.begin(), model_.eos_ids.end());
  response->set_max_prompt_bytes(limits_.max_prompt_bytes);
  response->set_default_temperature(limits_.defaults.temperature);
  response->set_default_top_k(limits_.defaults.top_k);
  response->set_default_top_p(limits_.defaults.top_p);
  response->set_default_max_tokens(kDefaultMaxTokens);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Impl::Tokenize(grpc::CallbackServerContext* context,
                                                           const v1::TokenizeRequest* request,
                                                           v1::TokenizeResponse* response) {
  return RunOnPool(context, CheckTokenizeRequest(*request, limits_), request->text().size(),
                   [this, request, response] {
                     EncodeOptions options;
                     options.add_special_tokens =
                         !request->has_add_special_tokens() || request->add_special_tokens();
                     options.parse_special_tokens = request->parse_special_tokens();
                     const std::vector<int32_t> ids = tokenizer_->Encode(request->text(), options);
                     response->mutable_token_ids()->Add(ids.begin(), ids.end());
                   });
}

grpc::ServerUnaryReactor* InferenceService::Impl::Detokenize(grpc::CallbackServerContext* context,
                                                             const v1::DetokenizeRequest* request,
                                                             v1::DetokenizeResponse* response) {
  const auto& ids = request->token_ids();
  return RunOnPool(
      context, CheckDetokenizeRequest(*request, limits_), ids.size() * int64_t{sizeof(int32_t)},
      [this, request, response, &ids] {
        response->set_text(tokenizer_->Decode(std::span<const int32_t>(ids.data(), ids.size()),
                                              request->keep_special_tokens()));
      });
}

absl::Status InferenceService::Impl::Enter() {
  if (stats_->inflight.fetch_add(1) >= options_.max_inflight_requests) {
    Leave();
    return RetryableError(absl::StatusCode::kResourceExhausted, "TOO_MANY_REQUESTS",
                          "too many requests are in flight", absl::Milliseconds(200));
  }
  if (draining_.load()) {
    Leave();
    return DrainingError();
  }
  return absl::OkStatus();
}

void InferenceService::Impl::Start(const v1::GenerateRequest& request, absl::Time deadline,
                                   const std::shared_ptr<TokenStream>& stream) {
  const absl::Time arrival = MonotonicClock::Get().Now();
  stream->Describe("", {}, arrival, deadline);
  if (absl::Status status = CheckDeadline(deadline); !status.ok()) return stream->Reject(status);
  absl::StatusOr<ParsedRequest> parsed = ParseGenerateRequest(request, limits_);
  if (!parsed.ok()) return stream->Reject(parsed.status());

  RequestSpec& spec = parsed->spec;
  spec.arrival = arrival;
  spec.deadline = deadline;
  absl::BitGen random;
  if (!parsed->has_seed) spec.sampling.seed = absl::Uniform<uint64_t>(random);
  if (spec.request_id.empty()) {
    spec.request_id = absl::StrFormat("r-%016x", absl::Uniform<uint64_t>(random));
  }
  stream->Describe(spec.request_id, spec.stop.strings, arrival, deadline);
  slow_readers_.Add(stream);
  if (!parsed->text) return Submit(std::move(spec), stream);

  // The job owns its text: a cancelled call, and its message, may be gone before its turn.
  const int64_t bytes = static_cast<int64_t>(parsed->text->size());
  auto job = std::make_shared<ParsedRequest>(*std::move(parsed));
  const absl::Status queued = pool_.Submit(bytes, [this, stream, job](const absl::Status& status) {
    if (!status.ok()) return stream->Reject(status);
    TokenizeAndSubmit(*job, stream);
  });
  if (!queued.ok()) stream->Reject(queued);
}

void InferenceService::Impl::TokenizeAndSubmit(ParsedRequest& request,
                                               const std::shared_ptr<TokenStream>& stream) {
  if (stream->ended()) return;
  absl::Status status = CheckDeadline(request.spec.deadline);
  if (!status.ok()) return stream->Reject(status);
  request.spec.prompt_ids = tokenizer_->Encode(*request.text, request.encode);
  status = CheckPromptTokens(static_cast<int64_t>(request.spec.prompt_ids.size()), "text", limits_);
  if (!status.ok()) return stream->Reject(status);
  Submit(std::move(request.spec), stream);
}

void InferenceService::Impl::Submit(RequestSpec spec, const std::shared_ptr<TokenStream>& stream) {
  if (stream->ended()) return;
  const absl::StatusOr<Placement> placement = router_->Submit(std::move(spec), stream);
  if (placement.ok()) return stream->Accepted(*placement);
  const absl::Status& status = placement.status();
  if (absl::IsInvalidArgument(status)) {
    // The one thing that an engine finds invalid is a prompt that can never fit.
    stream->Reject(InvalidField("prompt", status.message()));
  } else if (absl::IsUnavailable(status) && draining_.load()) {
    stream->Reject(DrainingError());
  } else {
    stream->Reject(status);
  }
}

grpc::ServerUnaryReactor* InferenceService::Impl::RunOnPool(grpc::CallbackServerContext* context,
                                                            const absl::Status& check,
                                                            int64_t bytes,
                                                            std::function<void()> work) {
  absl::Status status = Enter();
  if (!status.ok()) {
    grpc::ServerUnaryReactor* refused = context->DefaultReactor();
    FinishReactor(*refused, *context, status);
    return refused;
  }
  auto* call = new UnaryCall(this);
  const absl::Time deadline = DeadlineOf(*context);
  status = check;
  if (status.ok()) {
    status =
        pool_.Submit(bytes, [call, context, deadline, work = std::move(work)](absl::Status queued) {
          if (queued.ok()) queued = CheckDeadline(deadline);
          if (queued.ok()) work();
          FinishReactor(*call, *context, queued);
        });
    if (status.ok()) return call;  // perhaps over by now: only the pointer is passed on
  }
  FinishReactor(*call, *context, status);
  return call;
}

void InferenceService::Impl::LogRequest(const TokenStream& stream) const {
  if (!options_.log_requests) return;
  const TokenStream::Report report = stream.report();
  const Finish& finish = report.finish;
  spdlog::info(
      "request id=\"{}\" outcome={} prompt_tokens={} completion_tokens={} queue_ms={:.2f} "
      "ttft_ms={:.2f} total_ms={:.2f} status=\"{}\"",
      report.request_id, kOutcomeLabels[static_cast<size_t>(report.outcome)], finish.prompt_tokens,
      finish.completion_tokens, absl::ToDoubleMilliseconds(finish.timings.queue),
      absl::ToDoubleMilliseconds(finish.timings.ttft),
      absl::ToDoubleMilliseconds(finish.timings.total), std::string(report.status.message()));
}

InferenceService::InferenceService(const Options& options, std::string model_name,
                                   const ModelConfig& model,
                                   std::shared_ptr<const Tokenizer> tokenizer, const Router* router,
                                   ServerStats* stats)
    : impl_(std::make_unique<Impl>(options, std::move(model_name), model, std::move(tokenizer),
                                   router, stats)) {}

InferenceService::~InferenceService() = default;

grpc::Service* InferenceService::grpc_service() { return impl_.get(); }

void InferenceService::StopAccepting() { impl_->StopAccepting(); }

int64_t InferenceService::inflight() const { return impl_->inflight(); }

}  // namespace rally
