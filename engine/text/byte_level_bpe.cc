#include "engine/text/byte_level_bpe.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/text/absl_view.h"
#include "engine/text/unicode_nfc.h"

namespace rally {

absl::StatusOr<std::unique_ptr<ByteLevelBpe>> ByteLevelBpe::Create(
    BpeParts parts, const ByteLevelBpeOptions& options) {
  RALLY_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(options.split_rules));
  return absl::WrapUnique(new ByteLevelBpe(std::move(parts), options, std::move(pre_tokenizer)));
}

ByteLevelBpe::ByteLevelBpe(BpeParts parts, const ByteLevelBpeOptions& options,
                           PreTokenizer pre_tokenizer)
    : BpeTokenizer(std::move(parts), options.nfc ? Normalizer(ToNfc) : Normalizer()),
      options_(options),
      pre_tokenizer_(std::move(pre_tokenizer)) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = piece_ids().find(std::string(1, static_cast<char>(byte)));
    byte_ids_[byte] = found == piece_ids().end() ? -1 : found->second;
  }
}

void ByteLevelBpe::EncodeStretch(std::string_view text, bool at_start, BpeMerger& merger,
                                 std::vector<int32_t>& ids) const {
  std::string with_space;
  if (options_.add_prefix_space && text[0] != ' ') {
    with_space = absl::StrCat(" ", AbslView(text));
    text = with_space;
  }
  std::vector<int32_t> symbols;
  for (std::string_view piece : pre_tokenizer_.Split(text)) {
    EncodePiece(piece, merger, symbols, ids);
  }
}

void ByteLevelBpe::EncodePiece(std::string_view piece, BpeMerger& merger,
                               std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const auto whole = piece_ids().find(AbslView(piece));
    if (whole != piece_ids().end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  symbols.clear();
  bool after_unknown = false;
  for (char c : piece) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    const bool is_unknown = id < 0;
    if (!is_unknown) {
      symbols.push_back(id);
    } else if (options_.unknown_id.has_value() && !(after_unknown && options_.fuse_unknown)) {
      symbols.push_back(*options_.unknown_id);
    }
    after_unknown = is_unknown;
  }
  merger.Append(symbols, ids);
}

}  // namespace rally
