#include "server/router.h"

#include <algorithm>
#include <utility>

#include "server/error_details.h"

namespace rally {
namespace {

struct Candidate {
  int64_t outstanding_tokens;
  Engine* engine;
};

}  // namespace

absl::StatusOr<Placement> Router::Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) const {
  std::vector<Candidate> candidates;
  candidates.reserve(engines_.size());
  for (Engine* engine : engines_) {
    if (engine->up()) candidates.push_back({engine->outstanding_tokens(), engine});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.outstanding_tokens < b.outstanding_tokens;
  });
  absl::Status error = RetryableError(absl::StatusCode::kUnavailable, "NO_RANK_UP",
                                      "no device rank is up", absl::Seconds(1));
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool last = i + 1 == candidates.size();
    Engine* engine = candidates[i].engine;
    absl::StatusOr<RequestKey> key = engine->Submit(last ? std::move(spec) : spec, sink);
    if (key.ok()) return Placement{engine, *key};
    if (!absl::IsResourceExhausted(key.status()) && !absl::IsUnavailable(key.status())) {
      return key.status();
    }
    if (!absl::IsResourceExhausted(error)) error = key.status();
  }
  return error;
}

bool Router::AnyUp() const {
  return std::any_of(engines_.begin(), engines_.end(), [](const Engine* e) { return e->up(); });
}

}  // namespace rally
