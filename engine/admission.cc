#include "engine/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "kernels/step_record.h"

namespace rally {

Admission::Admission(Limits limits, const Vocabulary* vocabulary, const Clock* clock)
    : limits_(std::move(limits)), vocabulary_(vocabulary), clock_(clock) {}

absl::StatusOr<uint64_t> Admission::Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) {
  RALLY_ASSIGN_OR_RETURN(auto sequence, MakeSequence(std::move(spec), std::move(sink)));
  uint64_t key = 0;
  RALLY_RETURN_IF_ERROR(Enqueue(std::move(sequence), &key));
  return key;
}

absl::StatusOr<std::unique_ptr<Sequence>> Admission::MakeSequence(
    RequestSpec spec, std::shared_ptr<TokenSink> sink) const {
  const auto prompt = static_cast<int64_t>(spec.prompt_ids.size());
  if (prompt == 0) return absl::InvalidArgumentError("prompt: it has no tokens");
  if (prompt >= limits_.context_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: ", prompt, " tokens leave no room for output in the context of ",
                     limits_.context_tokens, " tokens"));
  }
  if (prompt > limits_.pool_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("prompt: ", prompt,
                                                   " tokens never fit the KV pool, which holds ",
                                                   limits_.pool_tokens, " tokens"));
  }
  auto sequence = std::make_unique<Sequence>();
  // The last output token needs no KV, so a pool of exactly prompt + n - 1 positions serves n.
  const int64_t room =
      std::min<int64_t>(limits_.context_tokens - prompt, limits_.pool_tokens - prompt + 1);
  sequence->output_limit = static_cast<int32_t>(std::min<int64_t>(spec.stop.max_tokens, room));
  sequence->prompt_count = static_cast<int32_t>(prompt);
  sequence->ids = std::move(spec.prompt_ids);
  sequence->ids.reserve(prompt + sequence->output_limit);
  sequence->stop_ids = spec.stop.token_ids;
  if (!spec.stop.ignore_eos) {
    sequence->stop_ids.insert(sequence->stop_ids.end(), limits_.eos_ids.begin(),
                              limits_.eos_ids.end());
  }
  if (sequence->stop_ids.size() > kMaxStopIds) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop_token_ids: with the model's end ids there are ",
                     sequence->stop_ids.size(), ", at most ", kMaxStopIds, " are possible"));
  }
  if (!spec.stop.strings.empty()) {
    sequence->stop_matcher = std::make_shared<const StopMatcher>(spec.stop.strings);
  }
  sequence->spec = std::move(spec);
  sequence->output = std::make_shared<Output>(sequence->output_limit, std::move(sink), vocabulary_);
  return sequence;
}

absl::Status Admission::Enqueue(std::unique_ptr<Sequence> sequence, uint64_t* key) {
  const int32_t prompt = sequence->prompt_count;
  {
    std::lock_guard lock(mutex_);
    if (!closed_.empty()) return absl::UnavailableError(closed_);
    if (queued_requests_ >= limits_.max_queued_requests) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the queue is full: ", queued_requests_, " requests wait"));
    }
    if (queued_tokens_ + prompt > limits_.max_queued_tokens) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the queue is full: ", queued_tokens_, " prompt tokens wait, this prompt has ", prompt,
          ", the limit is ", limits_.max_queued_tokens));
    }
    ++queued_requests_;
    queued_tokens_ += prompt;
    ++live_requests_;
    outstanding_.fetch_add(int64_t{prompt} + sequence->output_limit, std::memory_order_relaxed);
    *key = ++next_key_;
    sequence->key = *key;
    sequence->output->set_emitter(static_cast<int32_t>(*key % limits_.emitters));
    inbox_.submitted.push_back(std::move(sequence));
    inbox_.first_arrival = std::min(inbox_.first_arrival, clock_->Now());
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void Admission::Cancel(uint64_t key, FinishReason reason) {
  {
    std::lock_guard lock(mutex_);
    inbox_.cancelled.push_back({key, reason});
  }
  wake_.notify_one();
}

void Admission::AbortAll() {
  {
    std::lock_guard lock(mutex_);
    inbox_.abort_all = true;
  }
  wake_.notify_one();
}

void Admission::Close(std::string_view why) {
  std::lock_guard lock(mutex_);
  if (closed_.empty()) closed_ = why;
}

void Admission::Take(InboxBatch* batch) {
  batch->submitted.clear();
  batch->cancelled.clear();
  batch->abort_all = false;
  batch->first_arrival = absl::InfiniteFuture();
  std::lock_guard lock(mutex_);
  std::swap(*batch, inbox_);
}

void Admission::Wait() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return woken_ || !inbox_.empty(); });
  // Only here: a Take between the caller's look at its own flag and this wait must not eat a Wake.
  woken_ = false;
}

void Admission::Wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

void Admission::LeftQueue(int64_t prompt_tokens) {
  std::lock_guard lock(mutex_);
  --queued_requests_;
  queued_tokens_ -= prompt_tokens;
}

void Admission::LeftEngine() {
  std::lock_guard lock(mutex_);
  if (--live_requests_ == 0) emptied_.notify_all();
}

bool Admission::WaitUntilEmpty(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto empty = [&] { return live_requests_ == 0; };
  if (deadline == absl::InfiniteFuture()) {
    emptied_.wait(lock, empty);
    return true;
  }
  const absl::Duration left = deadline - clock_->Now();
  return emptied_.wait_for(lock, absl::ToChronoNanoseconds(std::max(left, absl::ZeroDuration())),
                           empty);
}

}  // namespace rally
