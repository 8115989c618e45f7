#include "engine/text/spelled_bpe.h"

#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/text/absl_view.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/sentencepiece_bpe.h"

namespace rally {
namespace {

using PieceIds = absl::flat_hash_map<std::string, int32_t>;

absl::StatusOr<PieceIds> IdsOfPieces(const SpelledBpe& spelled) {
  PieceIds ids;
  for (size_t id = 0; id < spelled.pieces.size(); ++id) {
    const std::string& piece = spelled.pieces[id];
    if (piece.empty()) continue;
    const auto [entry, is_new] = ids.emplace(piece, id);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(spelled.source, ": ids ", entry->second,
                                                     " and ", id, " are the same token \"", piece,
                                                     "\""));
    }
  }
  return ids;
}

absl::Status CheckAddedTokens(const SpelledBpe& spelled, const PieceIds& ids) {
  absl::flat_hash_set<absl::string_view> contents;
  absl::flat_hash_set<int32_t> added_ids;
  for (size_t i = 0; i < spelled.added_tokens.size(); ++i) {
    const AddedToken& token = spelled.added_tokens[i];
    const std::string where = absl::StrCat(spelled.source, ": added token ", i, " (id ", token.id,
                                           ", \"", token.content, "\") ");
    if (token.content.empty() || token.content.size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError(where + "is empty or too long");
    }
    if (token.id < 0 || token.id >= kMaxVocabularySize) {
      return absl::InvalidArgumentError(where + "has an id out of range");
    }
    if (!contents.insert(token.content).second || !added_ids.insert(token.id).second) {
      return absl::InvalidArgumentError(where + "is there twice");
    }
    const auto piece = ids.find(token.content);
    const bool other_id = piece != ids.end() && piece->second != token.id;
    const bool other_piece = static_cast<size_t>(token.id) < spelled.pieces.size() &&
                             !spelled.pieces[token.id].empty() &&
                             spelled.pieces[token.id] != token.content;
    if (other_id || other_piece) {
      return absl::InvalidArgumentError(where + "contradicts the vocabulary");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MergeTable> MakeMerges(const SpelledBpe& spelled, const PieceIds& ids,
                                      const absl::flat_hash_set<int32_t>& special_ids) {
  MergeTable merges;
  for (size_t rank = 0; rank < spelled.merges.size(); ++rank) {
    const auto& [left, right] = spelled.merges[rank];
    int32_t found[3] = {};
    int32_t* next = found;
    for (const std::string& piece : {left, right, left + right}) {
      const auto id = ids.find(piece);
      if (id == ids.end()) {
        return absl::InvalidArgumentError(absl::StrCat(spelled.source, ": merge ", rank, " (\"",
                                                       left, " ", right, "\"): \"", piece,
                                                       "\" is not in the vocabulary"));
      }
      *next++ = id->second;
    }
    if (special_ids.contains(found[2])) continue;
    merges.Set(found[0], found[1], {static_cast<uint32_t>(rank), found[2]});
  }
  return merges;
}

}  // namespace

absl::Status PlacePiece(std::string_view piece, int64_t id, std::string_view where,
                        std::vector<std::string>& pieces) {
  if (id < 0 || id >= kMaxVocabularySize) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(where), ": id ", id, " is not in [0, ", kMaxVocabularySize, ")"));
  }
  if (piece.size() > kMaxPieceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(where), ": a token of ", piece.size(),
                                                   " bytes, more than ", kMaxPieceBytes));
  }
  const size_t index = static_cast<size_t>(id);
  if (index >= pieces.size()) pieces.resize(index + 1);
  if (!pieces[index].empty()) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(where), ": id ", id, " is both \"",
                                                   pieces[index], "\" and \"", AbslView(piece),
                                                   "\""));
  }
  pieces[index] = piece;
  return absl::OkStatus();
}

std::string TextOfPiece(std::string_view piece, Spelling spelling) {
  if (spelling == Spelling::kByteLevel) {
    return BytesOfSpelledPiece(piece).value_or(std::string(piece));
  }
  if (const std::optional<char> byte = ByteOfBytePiece(piece)) return std::string(1, *byte);
  return absl::StrReplaceAll(AbslView(piece), {{AbslView(kBlankPiece), " "}});
}

absl::StatusOr<std::pair<std::string, std::string>> SplitMerge(std::string_view line,
                                                               std::string_view where) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        AbslView(where), ": a merge has two parts and one blank: \"", AbslView(line), "\""));
  }
  return std::pair(std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)));
}

absl::StatusOr<BpeParts> MakeBpeParts(SpelledBpe spelled, Spelling spelling) {
  RALLY_ASSIGN_OR_RETURN(const PieceIds ids, IdsOfPieces(spelled));
  RALLY_RETURN_IF_ERROR(CheckAddedTokens(spelled, ids));
  absl::flat_hash_set<int32_t> special_ids;
  for (const AddedToken& token : spelled.added_tokens) {
    if (token.special) special_ids.insert(token.id);
  }
  BpeParts parts;
  RALLY_ASSIGN_OR_RETURN(parts.merges, MakeMerges(spelled, ids, special_ids));
  for (const std::string& piece : spelled.pieces) {
    parts.tokens.push_back({TextOfPiece(piece, spelling), false});
  }
  for (const AddedToken& token : spelled.added_tokens) {
    if (static_cast<size_t>(token.id) >= parts.tokens.size()) parts.tokens.resize(token.id + 1);
    parts.tokens[token.id] = {token.content, token.special};
  }
  for (const auto& [piece, id] : ids) {
    if (special_ids.contains(id)) continue;
    if (spelling == Spelling::kSentencePiece) {
      parts.piece_ids.emplace(piece, id);
    } else if (const auto bytes = BytesOfSpelledPiece(piece)) {
      parts.piece_ids.emplace(*bytes, id);
    }
  }
  parts.added_tokens = std::move(spelled.added_tokens);
  return parts;
}

}  // namespace rally
