// A BPE model as files spell it, and the checks that make tokenizer data of it.
#ifndef RALLY_ENGINE_TEXT_SPELLED_BPE_H_
#define RALLY_ENGINE_TEXT_SPELLED_BPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/text/bpe_tokenizer.h"

namespace rally {

// Several times the largest vocabulary in use; bounds the memory that one large id can cost.
inline constexpr int64_t kMaxVocabularySize = 1 << 20;
// Many times the longest piece in use; bounds the work that one piece can cost.
inline constexpr size_t kMaxPieceBytes = 1024;

struct SpelledBpe {
  std::string source;                                       // the file, for messages
  std::vector<std::string> pieces;                          // by id; empty: none of the model's
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::vector<AddedToken> added_tokens;
};

enum class Spelling {
  kByteLevel,      // each byte is a letter of the byte alphabet: "Ġthe"
  kSentencePiece,  // "▁the", "<0x0A>"
};

// Puts `piece` at `id` and grows `pieces` as needed. INVALID_ARGUMENT, naming `where`, for an id
// out of range or given twice and for a piece that is too long.
absl::Status PlacePiece(std::string_view piece, int64_t id, std::string_view where,
                        std::vector<std::string>& pieces);

// The bytes that a piece adds to a text.
std::string TextOfPiece(std::string_view piece, Spelling spelling);

// "left right" -> the two. INVALID_ARGUMENT, naming `where`, unless there is exactly one blank.
absl::StatusOr<std::pair<std::string, std::string>> SplitMerge(std::string_view line,
                                                               std::string_view where);

// Fills tokens, piece ids, merges and added tokens. Both halves of a merge and their union must
// be pieces. An added token may be one of the model's pieces; if it is special, byte pair encoding
// no longer makes it: text must not turn into a control token by way of merges.
absl::StatusOr<BpeParts> MakeBpeParts(SpelledBpe spelled, Spelling spelling);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_SPELLED_BPE_H_
