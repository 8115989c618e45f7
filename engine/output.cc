#include "engine/output.h"

#include <utility>

namespace rally {

Output::Output(int32_t token_limit, std::shared_ptr<TokenSink> sink, const Vocabulary* vocabulary)
    : sink_(std::move(sink)), vocabulary_(vocabulary), ring_(token_limit) {
  ids_.reserve(token_limit);
}

void Output::Append(int32_t token, int64_t sendable_bytes) {
  const int32_t i = appended_.load(std::memory_order_relaxed);
  ring_[i] = {token, sendable_bytes};
  appended_.store(i + 1, std::memory_order_release);
}

void Output::End(Finish finish, int64_t final_bytes) {
  finish_ = std::move(finish);
  final_bytes_ = final_bytes;
  ended_.store(true, std::memory_order_release);
}

bool Output::Pump() {
  if (delivered_end_) return true;
  // The end is read first: every token that came before it is then visible too.
  const bool ended = ended_.load(std::memory_order_acquire);
  const int32_t appended = appended_.load(std::memory_order_acquire);
  ids_.clear();
  int64_t sendable_bytes = 0;
  for (; sent_ < appended; ++sent_) {
    ids_.push_back(ring_[sent_].token);
    detokenizer_.Append(vocabulary_->TextBytes(ring_[sent_].token));
    sendable_bytes = ring_[sent_].sendable_bytes;
  }
  const std::string text =
      ended ? detokenizer_.Finish(final_bytes_) : detokenizer_.TakeText(sendable_bytes);
  if (!ids_.empty() || !text.empty()) sink_->OnDelta(ids_, text);
  if (!ended) return false;
  sink_->OnFinish(finish_);
  delivered_end_ = true;
  return true;
}

}  // namespace rally
