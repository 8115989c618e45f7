// One request of a soak: what it asked for, what came back, and what of that was wrong.
#ifndef RALLY_TESTS_BENCH_SOAK_CHECKED_REQUEST_H_
#define RALLY_TESTS_BENCH_SOAK_CHECKED_REQUEST_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/request.h"

namespace rally {

class CheckedRequest : public TokenSink {
 public:
  CheckedRequest(RequestSpec spec, int32_t vocabulary);

  const RequestSpec& spec() const { return spec_; }
  uint64_t key = 0;
  bool cancelled = false;  // by us, before its end was seen

  void OnDelta(std::span<const int32_t> ids, std::string_view text) override;
  void OnFinish(const Finish& finish) override;

  bool ended() const;
  // False where neither came within `limit`.
  bool WaitForTokens(size_t count, absl::Duration limit);
  bool WaitForEnd(absl::Duration limit);
  Finish finish() const;
  std::vector<int32_t> ids() const;

  // After the end: empty, or the first promise that was broken.
  std::string Verdict() const;

 private:
  bool Stops(int32_t id) const;
  std::string CheckReason() const;
  std::string CheckIds() const;

  const RequestSpec spec_;
  const int32_t vocabulary_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> ids_;
  size_t text_bytes_ = 0;
  int finishes_ = 0;
  int late_deltas_ = 0;
  Finish finish_;
};

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_SOAK_CHECKED_REQUEST_H_
