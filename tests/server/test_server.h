// A real gRPC server on a free port over fake engines.
#ifndef RALLY_TESTS_SERVER_TEST_SERVER_H_
#define RALLY_TESTS_SERVER_TEST_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/grpc_server.h"
#include "server/inference_service.h"
#include "server/metrics.h"
#include "server/router.h"
#include "server/server_stats.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/fake_tokenizer.h"

namespace rally {

class TestServer {
 public:
  struct Options {
    std::vector<FakeEngine::Options> engines = {{}};
    InferenceService::Options service = {.log_requests = false};
    std::function<void()> on_encode = [] {};
  };

  TestServer() : TestServer(Options()) {}
  explicit TestServer(const Options& options) {
    std::vector<Engine*> pointers;
    for (const FakeEngine::Options& engine : options.engines) {
      engines_.push_back(std::make_unique<FakeEngine>(engine));
      pointers.push_back(engines_.back().get());
    }
    router_ = std::make_unique<Router>(pointers);
    ModelConfig model;
    model.architecture = "fake";
    model.vocab_size = FakeTokenizer::kSize;
    model.eos_ids = {FakeTokenizer::kEos};
    service_ = std::make_unique<InferenceService>(
        options.service, "tiny", model, std::make_shared<FakeTokenizer>(options.on_encode),
        router_.get(), &stats_);
    grpc_ = *GrpcServer::Start({.listen = "127.0.0.1:0"}, service_->grpc_service());
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", grpc_->port()); }
  FakeEngine& engine(size_t i = 0) { return *engines_[i]; }
  const Router& router() const { return *router_; }
  InferenceService& service() { return *service_; }
  GrpcServer& grpc() { return *grpc_; }
  const ServerStats& stats() const { return stats_; }
  int64_t ended(Outcome outcome) const {
    return stats_.requests_ended[static_cast<size_t>(outcome)].value();
  }
  MetricsSource metrics() const {
    MetricsSource source{
        .version = "1.2.3", .model_name = "tiny", .server = &stats_, .engines = {}};
    for (const auto& engine : engines_) source.engines.push_back(engine.get());
    return source;
  }

 private:
  ServerStats stats_;
  std::vector<std::unique_ptr<FakeEngine>> engines_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<GrpcServer> grpc_;
};

// Waits for what another thread does; false after ten seconds.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace rally

#endif  // RALLY_TESTS_SERVER_TEST_SERVER_H_
