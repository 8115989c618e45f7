#include "tests/bench/soak/checked_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rally {

CheckedRequest::CheckedRequest(RequestSpec spec, int32_t vocabulary)
    : spec_(std::move(spec)), vocabulary_(vocabulary) {}

void CheckedRequest::OnDelta(std::span<const int32_t> ids, std::string_view text) {
  std::lock_guard lock(mutex_);
  if (finishes_ > 0) ++late_deltas_;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  text_bytes_ += text.size();
  changed_.notify_all();
}

void CheckedRequest::OnFinish(const Finish& finish) {
  std::lock_guard lock(mutex_);
  ++finishes_;
  finish_ = finish;
  changed_.notify_all();
}

bool CheckedRequest::ended() const {
  std::lock_guard lock(mutex_);
  return finishes_ > 0;
}

bool CheckedRequest::WaitForTokens(size_t count, absl::Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                           [&] { return ids_.size() >= count || finishes_ > 0; });
}

bool CheckedRequest::WaitForEnd(absl::Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(limit), [&] { return finishes_ > 0; });
}

Finish CheckedRequest::finish() const {
  std::lock_guard lock(mutex_);
  return finish_;
}

std::vector<int32_t> CheckedRequest::ids() const {
  std::lock_guard lock(mutex_);
  return ids_;
}

std::string CheckedRequest::Verdict() const {
  std::lock_guard lock(mutex_);
  if (finishes_ != 1) return absl::StrCat(finishes_, " terminal events");
  if (late_deltas_ != 0) return "output after the terminal event";
  if (finish_.completion_tokens != static_cast<int32_t>(ids_.size())) {
    return absl::StrCat("usage says ", finish_.completion_tokens, " tokens, ", ids_.size(),
                        " were delivered");
  }
  std::string wrong = CheckReason();
  return wrong.empty() ? CheckIds() : wrong;
}

std::string CheckedRequest::CheckReason() const {
  switch (finish_.reason) {
    case FinishReason::kCancelled:
      return cancelled ? "" : "cancelled, and nobody asked for it";
    case FinishReason::kDeadline:
      return spec_.deadline < absl::InfiniteFuture() ? "" : "a deadline, and it had none";
    case FinishReason::kFailed:
      return absl::StrCat("failed: ", finish_.status.ToString());
    case FinishReason::kEos:
    case FinishReason::kStopToken:
      return !ids_.empty() && Stops(ids_.back()) ? "" : "a stop token that is none of its own";
    case FinishReason::kStopString:
      return spec_.stop.strings.empty() ? "a stop string, and it had none" : "";
    case FinishReason::kLength:
      break;
  }
  return finish_.status.ok() ? "" : absl::StrCat("by length: ", finish_.status.ToString());
}

std::string CheckedRequest::CheckIds() const {
  if (static_cast<int32_t>(ids_.size()) > spec_.stop.max_tokens)
    return "more tokens than asked for";
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i] < 0 || ids_[i] >= vocabulary_) return absl::StrCat("token ", ids_[i]);
    const bool last = i + 1 == ids_.size();
    if (Stops(ids_[i]) && !last) return "it went on after a stop token";
    if (Stops(ids_[i]) && static_cast<int32_t>(i) < spec_.stop.min_tokens) {
      return "a stop token before min_tokens";
    }
  }
  return "";
}

bool CheckedRequest::Stops(int32_t id) const {
  const std::vector<int32_t>& own = spec_.stop.token_ids;
  return (id == 0 && !spec_.stop.ignore_eos) || std::find(own.begin(), own.end(), id) != own.end();
}

}  // namespace rally
