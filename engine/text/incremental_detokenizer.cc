#include "engine/text/incremental_detokenizer.h"

#include <algorithm>

#include "engine/text/utf8.h"

namespace rally {

void IncrementalDetokenizer::Append(std::string_view token_bytes) { buffer_ += token_bytes; }

std::string IncrementalDetokenizer::TakeText(int64_t sendable_bytes) {
  return Take(sendable_bytes, /*is_end=*/false);
}

std::string IncrementalDetokenizer::Finish(int64_t final_bytes) {
  std::string text = Take(final_bytes, /*is_end=*/true);
  taken_ = buffer_.size();
  DropTaken();
  return text;
}

std::string IncrementalDetokenizer::Take(int64_t limit_bytes, bool is_end) {
  const int64_t limit = std::min(limit_bytes, raw_bytes()) - dropped_bytes_;
  std::string text;
  while (static_cast<int64_t>(taken_) < limit) {
    const auto rest = std::string_view(buffer_).substr(taken_, limit - taken_);
    const Utf8Part part = FirstUtf8Part(rest);
    if (part.kind == Utf8Kind::kIncomplete && !is_end) break;
    text += part.kind == Utf8Kind::kCodePoint ? rest.substr(0, part.bytes) : kReplacementCharacter;
    taken_ += part.bytes;
  }
  DropTaken();
  return text;
}

// Only when at least half the buffer goes, so that moving the rest costs O(1) a byte.
void IncrementalDetokenizer::DropTaken() {
  if (taken_ < buffer_.size() - taken_) return;
  buffer_.erase(0, taken_);
  dropped_bytes_ += static_cast<int64_t>(taken_);
  taken_ = 0;
}

}  // namespace rally
