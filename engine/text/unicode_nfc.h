// Unicode normalisation form C, which Qwen's tokenizers apply to text first.
#ifndef RALLY_ENGINE_TEXT_UNICODE_NFC_H_
#define RALLY_ENGINE_TEXT_UNICODE_NFC_H_

#include <string>
#include <string_view>

namespace rally {

// `valid_text` is valid UTF-8. O(n log n), also for a megabyte of combining marks.
std::string ToNfc(std::string_view valid_text);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_UNICODE_NFC_H_
