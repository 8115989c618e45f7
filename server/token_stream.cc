#include "server/token_stream.h"

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"
#include "server/error_details.h"

namespace rally {
namespace {

struct OutcomeOfFinish {
  Outcome outcome;
  v1::FinishReason reason;  // UNSPECIFIED: the call ends with the finish's status instead
};

OutcomeOfFinish Translate(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return {Outcome::kEos, v1::FINISH_REASON_EOS};
    case FinishReason::kStopToken:
      return {Outcome::kStopToken, v1::FINISH_REASON_STOP_TOKEN};
    case FinishReason::kStopString:
      return {Outcome::kStopString, v1::FINISH_REASON_STOP_STRING};
    case FinishReason::kLength:
      return {Outcome::kLength, v1::FINISH_REASON_LENGTH};
    case FinishReason::kCancelled:
      return {Outcome::kCancelled, v1::FINISH_REASON_UNSPECIFIED};
    case FinishReason::kDeadline:
      return {Outcome::kDeadline, v1::FINISH_REASON_UNSPECIFIED};
    case FinishReason::kFailed:
      break;
  }
  return {Outcome::kFailed, v1::FINISH_REASON_UNSPECIFIED};
}

v1::Finished FinishedMessage(const Finish& finish, const std::string& request_id,
                             const std::vector<std::string>& stop_strings) {
  v1::Finished out;
  out.set_reason(Translate(finish.reason).reason);
  const int32_t index = finish.stop_string_index;
  if (finish.reason == FinishReason::kStopString && index >= 0 &&
      index < static_cast<int32_t>(stop_strings.size())) {
    out.set_stop_string(stop_strings[index]);
  } else if (finish.reason == FinishReason::kEos || finish.reason == FinishReason::kStopToken) {
    out.set_stop_token_id(finish.stop_token_id);
  }
  out.mutable_usage()->set_prompt_tokens(finish.prompt_tokens);
  out.mutable_usage()->set_completion_tokens(finish.completion_tokens);
  out.set_seed(finish.seed);
  v1::Timings* timings = out.mutable_timings();
  timings->set_queue_ms(absl::ToDoubleMilliseconds(finish.timings.queue));
  timings->set_prefill_ms(absl::ToDoubleMilliseconds(finish.timings.prefill));
  timings->set_ttft_ms(absl::ToDoubleMilliseconds(finish.timings.ttft));
  timings->set_total_ms(absl::ToDoubleMilliseconds(finish.timings.total));
  out.set_request_id(request_id);
  return out;
}

// A caller's own timer fires before the server's: gRPC rounds the timeout up on the wire, by up to
// 1 %, and the request took time to come. So a cancel this near to the deadline is the deadline.
bool IsDeadline(absl::Time now, absl::Time arrival, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return false;
  return now >= deadline - std::max(absl::Milliseconds(20), (deadline - arrival) / 50);
}

}  // namespace

void TokenStream::Describe(std::string request_id, std::vector<std::string> stop_strings,
                           absl::Time arrival, absl::Time deadline) {
  const std::lock_guard lock(mutex_);
  request_id_ = std::move(request_id);
  stop_strings_ = std::move(stop_strings);
  arrival_ = arrival;
  deadline_ = deadline;
}

void TokenStream::Reject(const absl::Status& status) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    if (outcome_) return;
    outcome_ = OutcomeOfRejection(status);
    status_ = status;
    action = NextAction();
  }
  Do(action);
}

void TokenStream::Accepted(const Placement& placement) {
  bool cancel;
  {
    const std::lock_guard lock(mutex_);
    placement_ = placement;
    cancel = broken_;
  }
  if (cancel) CancelInEngine();
}

bool TokenStream::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

TokenStream::Report TokenStream::report() const {
  const std::lock_guard lock(mutex_);
  return {request_id_, outcome_.value_or(Outcome::kFailed), finish_.value_or(Finish()), status_};
}

void TokenStream::OnWriteDone(bool ok) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    write_out_ = false;
    if (!ok && !broken_) BreakByCaller();
    action = NextAction();
  }
  if (!ok) CancelInEngine();
  Do(action);
}

void TokenStream::OnCancel() {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) BreakByCaller();
    action = NextAction();
  }
  CancelInEngine();
  Do(action);
}

void TokenStream::AbortIfStalledSince(absl::Time limit) {
  {
    const std::lock_guard lock(mutex_);
    if (!write_out_ || aborted_ || write_start_ > limit) return;
    aborted_ = aborting_ = true;
    MarkBroken(Outcome::kSlowReader,
               ErrorWithReason(absl::StatusCode::kCancelled, "SLOW_READER",
                               "the caller did not read for the slow reader timeout"));
  }
  CancelInEngine();
  writer_->Abort();
  Action action;
  {
    const std::lock_guard lock(mutex_);
    aborting_ = false;
    action = NextAction();
  }
  Do(action);
}

void TokenStream::OnDelta(std::span<const int32_t> ids, std::string_view text) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    if (outcome_ || broken_ || (ids.empty() && text.empty())) return;
    v1::Delta* delta = filling_.mutable_delta();
    delta->mutable_text()->append(text);
    delta->mutable_token_ids()->Add(ids.begin(), ids.end());
    has_filling_ = true;
    action = NextAction();
  }
  Do(action);
}

void TokenStream::OnFinish(const Finish& finish) {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    finish_ = finish;
    if (!outcome_) {
      const OutcomeOfFinish end = Translate(finish.reason);
      outcome_ = end.outcome;
      if (end.reason == v1::FINISH_REASON_UNSPECIFIED) {
        status_ = !finish.status.ok() ? finish.status
                                      : absl::InternalError("the engine failed without a reason");
      }
    }
    action = NextAction();
  }
  Do(action);
}

TokenStream::Action TokenStream::NextAction() {
  if (ended_ || write_out_ || aborting_) return Action::kNone;
  if (!broken_ && has_filling_) {
    std::swap(out_, filling_);
    filling_.Clear();
    has_filling_ = false;
    StartWrite();
    return Action::kWrite;
  }
  if (!outcome_) return Action::kNone;
  if (!broken_ && status_.ok() && !finished_written_) {
    *out_.mutable_finished() = FinishedMessage(*finish_, request_id_, stop_strings_);
    finished_written_ = true;
    StartWrite();
    return Action::kWrite;
  }
  ended_ = true;
  stats_->CountEnd(*outcome_);
  return Action::kEnd;
}

void TokenStream::StartWrite() {
  write_out_ = true;
  write_start_ = MonotonicClock::Get().Now();
}

void TokenStream::Do(Action action) {
  switch (action) {
    case Action::kNone:
      return;
    case Action::kWrite:
      return writer_->Write(&out_);
    case Action::kEnd:
      return writer_->End(status_);
  }
}

void TokenStream::MarkBroken(Outcome outcome, absl::Status status) {
  broken_ = true;
  if (finished_written_ || ended_) return;
  outcome_ = outcome;
  status_ = std::move(status);
}

void TokenStream::BreakByCaller() {
  if (IsDeadline(MonotonicClock::Get().Now(), arrival_, deadline_)) {
    return MarkBroken(Outcome::kDeadline,
                      ErrorWithReason(absl::StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED",
                                      "the caller's deadline passed"));
  }
  MarkBroken(Outcome::kCancelled, ErrorWithReason(absl::StatusCode::kCancelled, "CANCELLED",
                                                  "the caller cancelled or is gone"));
}

void TokenStream::CancelInEngine() {
  Placement placement;
  FinishReason reason;
  {
    const std::lock_guard lock(mutex_);
    if (!placement_ || finish_) return;
    placement = *placement_;
    reason = outcome_ == Outcome::kDeadline ? FinishReason::kDeadline : FinishReason::kCancelled;
  }
  placement.engine->Cancel(placement.key, reason);
}

Outcome OutcomeOfRejection(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return Outcome::kRejectedInvalid;
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kRejectedOverload;
    case absl::StatusCode::kUnavailable:
      return Outcome::kRejectedUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return Outcome::kDeadline;
    case absl::StatusCode::kCancelled:
      return Outcome::kCancelled;
    default:
      return Outcome::kFailed;
  }
}

}  // namespace rally
