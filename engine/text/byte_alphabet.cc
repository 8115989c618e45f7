#include "engine/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "engine/text/utf8.h"

namespace rally {
namespace {

constexpr int kLetters = 0x144;  // the letters are code points below this one

// GPT-2's encoder.py, bytes_to_unicode(): printable Latin-1 stands for itself, the other 68 bytes
// are U+0100 onwards in order. -1: no letter.
constexpr std::array<int16_t, kLetters> MakeByteOfLetter() {
  std::array<int16_t, kLetters> byte_of = {};
  for (int16_t& byte : byte_of) byte = -1;
  int next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    byte_of[printable ? byte : next++] = byte;
  }
  return byte_of;
}

}  // namespace

std::optional<std::string> BytesOfSpelledPiece(std::string_view spelled) {
  static constexpr std::array<int16_t, kLetters> kByteOfLetter = MakeByteOfLetter();
  std::string bytes;
  while (!spelled.empty()) {
    const Utf8Part part = FirstUtf8Part(spelled);
    if (part.kind != Utf8Kind::kCodePoint) return std::nullopt;
    size_t length = 0;
    const char32_t letter = FirstCodePoint(spelled, &length);
    if (letter >= kLetters || kByteOfLetter[letter] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfLetter[letter]);
    spelled.remove_prefix(length);
  }
  return bytes;
}

}  // namespace rally
