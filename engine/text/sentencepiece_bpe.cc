#include "engine/text/sentencepiece_bpe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/text/absl_view.h"
#include "engine/text/utf8.h"

namespace rally {
namespace {

using DummyPrefix = SentencePieceBpeOptions::DummyPrefix;

std::string BlanksToPieces(std::string_view text) {
  return absl::StrReplaceAll(AbslView(text), {{" ", AbslView(kBlankPiece)}});
}

}  // namespace

// With kEveryStretch the blank comes before the search for added tokens that are marked as
// normalised (a normaliser of `tokenizers`), else after it (a pre-tokeniser).
SentencePieceBpe::SentencePieceBpe(BpeParts parts, const SentencePieceBpeOptions& options)
    : BpeTokenizer(std::move(parts), options.dummy_prefix == DummyPrefix::kEveryStretch
                                         ? Normalizer([](std::string_view text) {
                                             return absl::StrCat(AbslView(kBlankPiece),
                                                                 BlanksToPieces(text));
                                           })
                                         : Normalizer()),
      options_(options) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = piece_ids().find(absl::StrFormat("<0x%02X>", byte));
    byte_ids_[byte] = found == piece_ids().end() ? -1 : found->second;
  }
}

void SentencePieceBpe::EncodeStretch(std::string_view text, bool at_start, BpeMerger& merger,
                                     std::vector<int32_t>& ids) const {
  std::string pieces = BlanksToPieces(text);
  const bool wants_prefix = options_.dummy_prefix == DummyPrefix::kEveryStretchUnlessBlank ||
                            (options_.dummy_prefix == DummyPrefix::kTextUnlessBlank && at_start);
  if (wants_prefix && !pieces.starts_with(kBlankPiece)) pieces.insert(0, kBlankPiece);
  std::string_view rest = pieces;
  while (!rest.empty()) {
    size_t end = rest.size();
    if (options_.split_at_blanks) {
      const size_t from = rest.starts_with(kBlankPiece) ? kBlankPiece.size() : 0;
      end = std::min(end, rest.find(kBlankPiece, from));
    }
    EncodePiece(rest.substr(0, end), merger, ids);
    rest.remove_prefix(end);
  }
}

void SentencePieceBpe::EncodePiece(std::string_view piece, BpeMerger& merger,
                                   std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const auto whole = piece_ids().find(AbslView(piece));
    if (whole != piece_ids().end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  std::vector<int32_t> symbols;
  bool after_unknown = false;
  while (!piece.empty()) {
    const std::string_view code_point = piece.substr(0, FirstUtf8Part(piece).bytes);
    piece.remove_prefix(code_point.size());
    const auto found = piece_ids().find(AbslView(code_point));
    bool is_unknown = false;
    if (found != piece_ids().end()) {
      symbols.push_back(found->second);
    } else if (!options_.byte_fallback || !AppendBytes(code_point, symbols)) {
      is_unknown = options_.unknown_id.has_value();
      const bool fused = after_unknown && options_.fuse_unknown;
      if (is_unknown && !fused) symbols.push_back(*options_.unknown_id);
    }
    after_unknown = is_unknown;
  }
  merger.Append(symbols, ids);
}

// False, and nothing appended, if the vocabulary lacks one of the bytes.
bool SentencePieceBpe::AppendBytes(std::string_view code_point,
                                   std::vector<int32_t>& symbols) const {
  for (char c : code_point) {
    if (byte_ids_[static_cast<uint8_t>(c)] < 0) return false;
  }
  for (char c : code_point) symbols.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  return true;
}

std::string SentencePieceBpe::Decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string text = BpeTokenizer::Decode(ids, keep_special);
  if (options_.strip_on_decode && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::optional<char> ByteOfBytePiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>' ||
      !absl::ascii_isxdigit(piece[3]) || !absl::ascii_isxdigit(piece[4])) {
    return std::nullopt;
  }
  return absl::HexStringToBytes(AbslView(piece.substr(3, 2)))[0];
}

}  // namespace rally
