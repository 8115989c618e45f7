// UTF-8 as bytes that may be wrong: one rule for every place that must make valid text of them.
//
// The rule is the Unicode Standard's (3.9, "U+FFFD Substitution of Maximal Subparts", table 3-8):
// each longest stretch that could still have become a code point counts as one invalid part, and
// every other wrong byte is a part of its own. Rust's from_utf8_lossy and Python's
// errors="replace" follow it too.
#ifndef RALLY_ENGINE_TEXT_UTF8_H_
#define RALLY_ENGINE_TEXT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rally {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kCodePoint,
  kInvalid,     // a maximal invalid part
  kIncomplete,  // the text ends inside a sequence that is right so far
};

struct Utf8Part {
  size_t bytes = 0;
  Utf8Kind kind = Utf8Kind::kCodePoint;
};

// The first part of `text`, which is not empty.
Utf8Part FirstUtf8Part(std::string_view text);

// Every invalid part, an incomplete one at the end included, becomes one U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// The first code point of valid, non-empty text; its length goes to `bytes`.
char32_t FirstCodePoint(std::string_view valid_text, size_t* bytes);

// Unicode's White_Space property. Not iswspace(): that depends on the locale.
bool IsWhiteSpace(char32_t code_point);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_UTF8_H_
