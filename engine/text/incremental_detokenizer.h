// Turns the bytes of output tokens into text deltas that are valid UTF-8, one request each.
#ifndef RALLY_ENGINE_TEXT_INCREMENTAL_DETOKENIZER_H_
#define RALLY_ENGINE_TEXT_INCREMENTAL_DETOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rally {

// Whatever the tokens and the calls, the deltas joined are ReplaceInvalidUtf8() of the raw output
// up to `final_bytes`: a code point that is split over tokens waits until it is whole, bytes that
// no continuation can mend become U+FFFD, one for each maximal invalid part (utf8.h), and so does
// a sequence that the end of the output cuts off.
//
// Byte counts are cumulative over the raw output. Memory is bounded by what is held back; each
// byte is read a constant number of times. One thread at a time.
class IncrementalDetokenizer {
 public:
  void Append(std::string_view token_bytes);
  // Text up to raw byte `sendable_bytes` (as stop matching allows; capped to what was appended)
  // that was not taken yet. It may be empty. A sequence that `sendable_bytes` cuts is not looked at
  // beyond it and waits.
  std::string TakeText(int64_t sendable_bytes);
  // The last delta: all text up to raw byte `final_bytes`. What lies behind is dropped.
  std::string Finish(int64_t final_bytes);

  // Raw bytes appended so far.
  int64_t raw_bytes() const { return dropped_bytes_ + static_cast<int64_t>(buffer_.size()); }

 private:
  std::string Take(int64_t limit_bytes, bool is_end);
  void DropTaken();

  std::string buffer_;  // raw output from `dropped_bytes_` on
  size_t taken_ = 0;    // of the buffer
  int64_t dropped_bytes_ = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_INCREMENTAL_DETOKENIZER_H_
