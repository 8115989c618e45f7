#include "engine/text/tiktoken_file.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/input_file.h"
#include "engine/base/status_macros.h"
#include "engine/text/byte_level_bpe.h"
#include "engine/text/spelled_bpe.h"

namespace rally {
namespace {

constexpr int32_t kEndOfTextId = 50256;

absl::StatusOr<std::vector<std::string>> ReadRanks(const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  std::vector<std::string> pieces;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat(path, ":", ++number);
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, ' ');
    std::string piece;
    int64_t rank = 0;
    if (!absl::Base64Unescape(parts.first, &piece) || piece.empty() ||
        !absl::SimpleAtoi(parts.second, &rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": a line is a base64 piece, a blank and a rank"));
    }
    RALLY_RETURN_IF_ERROR(PlacePiece(piece, rank, where, pieces));
  }
  return pieces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktokenFile(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (name != "gpt2.tiktoken" && name != "r50k_base.tiktoken") {
    return absl::UnimplementedError(
        absl::StrCat(path, ": the encoding of a tiktoken file of this name is not known"));
  }
  RALLY_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, ReadRanks(path));
  BpeParts parts;
  std::vector<RankedPiece> ranked;
  for (size_t id = 0; id < pieces.size(); ++id) {
    parts.tokens.push_back({pieces[id], false});
    if (pieces[id].empty()) continue;
    ranked.push_back({pieces[id], static_cast<int32_t>(id), static_cast<uint32_t>(id)});
    if (!parts.piece_ids.emplace(pieces[id], id).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": rank ", id, " repeats a piece"));
    }
  }
  if (pieces.size() > kEndOfTextId) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", pieces.size(), " ranks, more than ", kEndOfTextId));
  }
  AddedToken& end = parts.added_tokens.emplace_back();
  end.content = "<|endoftext|>";
  end.id = kEndOfTextId;
  end.special = true;
  parts.tokens.resize(kEndOfTextId + 1);
  parts.tokens[kEndOfTextId] = {end.content, true};
  parts.merges = MergesOfRankedPieces(ranked);
  parts.eos_ids = {kEndOfTextId};
  ByteLevelBpeOptions options;
  options.ignore_merges = true;  // tiktoken looks a whole piece up first
  return ByteLevelBpe::Create(std::move(parts), options);
}

}  // namespace rally
