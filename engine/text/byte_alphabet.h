// How byte-level vocabularies spell bytes: each of the 256 is one printable character.
#ifndef RALLY_ENGINE_TEXT_BYTE_ALPHABET_H_
#define RALLY_ENGINE_TEXT_BYTE_ALPHABET_H_

#include <optional>
#include <string>
#include <string_view>

namespace rally {

// "Ġthe" -> " the". Nothing if `spelled` holds another character or is not UTF-8: byte pair
// encoding never makes such a piece.
std::optional<std::string> BytesOfSpelledPiece(std::string_view spelled);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_BYTE_ALPHABET_H_
