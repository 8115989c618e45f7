#include "engine/text/utf8.h"

#include <cstdint>

namespace rally {
namespace {

// What may follow a lead byte (table 3-7): how long the sequence is and the range of its second
// byte. Length 0 marks a byte that begins nothing.
struct Lead {
  uint8_t length;
  uint8_t second_min;
  uint8_t second_max;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

}  // namespace

Utf8Part FirstUtf8Part(std::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.length == 0) return {1, Utf8Kind::kInvalid};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {i, Utf8Kind::kIncomplete};
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {i, Utf8Kind::kInvalid};
  }
  return {lead.length, Utf8Kind::kCodePoint};
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = FirstUtf8Part(text);
    valid += part.kind == Utf8Kind::kCodePoint ? text.substr(0, part.bytes) : kReplacementCharacter;
    text.remove_prefix(part.bytes);
  }
  return valid;
}

char32_t FirstCodePoint(std::string_view valid_text, size_t* bytes) {
  const uint8_t first = static_cast<uint8_t>(valid_text[0]);
  *bytes = LeadOf(first).length;
  if (*bytes == 1) return first;
  char32_t code_point = first & (0x7F >> *bytes);
  for (size_t i = 1; i < *bytes; ++i) {
    code_point = code_point << 6 | (static_cast<uint8_t>(valid_text[i]) & 0x3F);
  }
  return code_point;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace rally
