#include "engine/text/unicode_nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "engine/text/utf8.h"

namespace rally {
namespace {

// Below U+0300 nothing combines and nothing decomposes for good: such text is NFC already.
bool IsPlainlyNfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// The canonical order of each run of combining marks. utf8proc sorts with an insertion sort, which
// is quadratic on a long run of marks, so the order is made here.
void SortCombiningMarks(std::vector<utf8proc_int32_t>& code_points) {
  auto is_starter = [](utf8proc_int32_t c) { return CombiningClass(c) == 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if_not(begin, code_points.end(), is_starter);
    const auto end = std::find_if(begin, code_points.end(), is_starter);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

}  // namespace

std::string ToNfc(std::string_view valid_text) {
  if (IsPlainlyNfc(valid_text)) return std::string(valid_text);
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(valid_text.size());
  while (!valid_text.empty()) {
    size_t bytes = 0;
    const char32_t code_point = FirstCodePoint(valid_text, &bytes);
    valid_text.remove_prefix(bytes);
    // The longest canonical decomposition has 4 code points (Unicode Annex 15, table 7).
    utf8proc_int32_t parts[8];
    const auto option = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, 8,
                                               option, &boundary);
    code_points.insert(code_points.end(), parts, parts + count);
  }
  SortCombiningMarks(code_points);
  const auto option = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  code_points.resize(utf8proc_normalize_utf32(code_points.data(), code_points.size(), option));
  std::string normalized;
  for (utf8proc_int32_t code_point : code_points) {
    utf8proc_uint8_t encoded[4];
    const auto bytes = utf8proc_encode_char(code_point, encoded);
    normalized.append(reinterpret_cast<const char*>(encoded), bytes);
  }
  return normalized;
}

}  // namespace rally
