#include "engine/text/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/text/absl_view.h"
#include "engine/text/byte_level_bpe.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/sentencepiece_bpe.h"
#include "engine/text/spelled_bpe.h"

namespace rally {
namespace {

// llama.h, enum llama_token_type.
enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

constexpr std::array<std::string_view, 7> kEndTokens = {
    "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",   "<|eom_id|>",
    "<|im_end|>",    "<|end|>",         "<end_of_turn>"};

absl::Status KeyError(std::string_view key, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.ggml.", AbslView(key), ": ", AbslView(what)));
}

int32_t TypeOf(const GgufVocabulary& gguf, size_t id) {
  return gguf.token_types.empty() ? kNormal : gguf.token_types[id];
}

absl::Status CheckSizes(const GgufVocabulary& gguf) {
  const size_t size = gguf.tokens.size();
  if (size == 0 || size > kMaxVocabularySize) {
    return KeyError("tokens", absl::StrCat(size, " tokens, not in [1, ", kMaxVocabularySize, "]"));
  }
  if (!gguf.token_types.empty() && gguf.token_types.size() != size) {
    return KeyError("token_type",
                    absl::StrCat(gguf.token_types.size(), " entries for ", size, " tokens"));
  }
  for (size_t id = 0; id < size; ++id) {
    if (gguf.tokens[id].size() > kMaxPieceBytes) {
      return KeyError("tokens", absl::StrCat("token ", id, " is longer than ", kMaxPieceBytes));
    }
  }
  for (size_t id = 0; id < gguf.token_types.size(); ++id) {
    const int32_t type = gguf.token_types[id];
    if (type < kNormal || type > kByte) {
      return KeyError("token_type", absl::StrCat("type ", type, " of token ", id, " is unknown"));
    }
  }
  const std::pair<std::string_view, int32_t> ids[] = {{"bos_token_id", gguf.bos_id},
                                                      {"eos_token_id", gguf.eos_id},
                                                      {"unknown_token_id", gguf.unknown_id}};
  for (const auto& [key, id] : ids) {
    if (id < -1 || id >= static_cast<int64_t>(size)) {
      return KeyError(key, absl::StrCat(id, " is not in [0, ", size, ")"));
    }
  }
  return absl::OkStatus();
}

// Tokens that byte pair encoding makes become pieces, the others added tokens. UNUSED tokens are
// neither: no text leads to them.
SpelledBpe Spell(const GgufVocabulary& gguf) {
  SpelledBpe spelled;
  spelled.source = "tokenizer.ggml.tokens";
  spelled.pieces.resize(gguf.tokens.size());
  for (size_t id = 0; id < gguf.tokens.size(); ++id) {
    const std::string& token = gguf.tokens[id];
    const int32_t type = TypeOf(gguf, id);
    if (type == kNormal || type == kByte) {
      spelled.pieces[id] = token;
    } else if (type != kUnused && !token.empty()) {
      AddedToken& added = spelled.added_tokens.emplace_back();
      added.content = token;
      added.id = static_cast<int32_t>(id);
      added.special = type != kUserDefined;
    }
  }
  return spelled;
}

absl::Status AddBoundaryIds(const GgufVocabulary& gguf, bool bos_by_default, BpeParts& parts) {
  if (gguf.has_add_bos ? gguf.add_bos : bos_by_default) {
    if (gguf.bos_id < 0) return KeyError("bos_token_id", "is missing, but BOS is to be added");
    parts.prefix_ids = {gguf.bos_id};
  }
  if (gguf.add_eos) {
    if (gguf.eos_id < 0) return KeyError("eos_token_id", "is missing, but EOS is to be added");
    parts.suffix_ids = {gguf.eos_id};
  }
  if (gguf.eos_id >= 0) parts.eos_ids.push_back(gguf.eos_id);
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const int32_t id = static_cast<int32_t>(i);
    const bool is_end = TypeOf(gguf, i) == kControl &&
                        std::count(kEndTokens.begin(), kEndTokens.end(), gguf.tokens[i]) > 0;
    if (is_end && id != gguf.eos_id) parts.eos_ids.push_back(id);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteLevel(const GgufVocabulary& gguf) {
  const auto rules = SplitRulesOfGgufPre(gguf.pre);
  if (!rules.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer.ggml.pre: \"", gguf.pre, "\" is not supported"));
  }
  SpelledBpe spelled = Spell(gguf);
  for (size_t i = 0; i < gguf.merges.size(); ++i) {
    RALLY_ASSIGN_OR_RETURN(
        auto merge, SplitMerge(gguf.merges[i], absl::StrCat("tokenizer.ggml.merges[", i, "]")));
    spelled.merges.push_back(std::move(merge));
  }
  RALLY_ASSIGN_OR_RETURN(BpeParts parts, MakeBpeParts(std::move(spelled), Spelling::kByteLevel));
  const bool is_llama3 = rules->front() == SplitRule::kLlama3;
  RALLY_RETURN_IF_ERROR(AddBoundaryIds(gguf, is_llama3, parts));
  ByteLevelBpeOptions options;
  options.split_rules = *rules;
  options.nfc = rules->front() == SplitRule::kQwen2;
  options.ignore_merges = is_llama3;
  return ByteLevelBpe::Create(std::move(parts), options);
}

// Merges by score: the highest first. Equal scores are one rank, so that the leftmost wins.
absl::StatusOr<MergeTable> MergesOfScores(const GgufVocabulary& gguf) {
  if (gguf.scores.size() != gguf.tokens.size()) {
    return KeyError(
        "scores", absl::StrCat(gguf.scores.size(), " entries for ", gguf.tokens.size(), " tokens"));
  }
  std::vector<float> order = gguf.scores;
  if (std::any_of(order.begin(), order.end(), [](float score) { return std::isnan(score); })) {
    return KeyError("scores", "a score is not a number");
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<RankedPiece> pieces;
  for (size_t id = 0; id < gguf.tokens.size(); ++id) {
    if (TypeOf(gguf, id) != kNormal || gguf.tokens[id].empty()) continue;
    const auto place =
        std::lower_bound(order.begin(), order.end(), gguf.scores[id], std::greater<>());
    pieces.push_back(
        {gguf.tokens[id], static_cast<int32_t>(id), static_cast<uint32_t>(place - order.begin())});
  }
  return MergesOfRankedPieces(pieces);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePiece(const GgufVocabulary& gguf) {
  RALLY_ASSIGN_OR_RETURN(BpeParts parts, MakeBpeParts(Spell(gguf), Spelling::kSentencePiece));
  RALLY_ASSIGN_OR_RETURN(parts.merges, MergesOfScores(gguf));
  RALLY_RETURN_IF_ERROR(AddBoundaryIds(gguf, true, parts));
  SentencePieceBpeOptions options;
  const bool prefix = gguf.has_add_space_prefix ? gguf.add_space_prefix : true;
  options.dummy_prefix = prefix ? SentencePieceBpeOptions::DummyPrefix::kEveryStretch
                                : SentencePieceBpeOptions::DummyPrefix::kNever;
  options.strip_on_decode = prefix;
  if (gguf.unknown_id >= 0) options.unknown_id = gguf.unknown_id;
  return std::make_unique<SentencePieceBpe>(std::move(parts), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufVocabulary& gguf) {
  RALLY_RETURN_IF_ERROR(CheckSizes(gguf));
  if (gguf.model == "gpt2") return MakeByteLevel(gguf);
  if (gguf.model == "llama") return MakeSentencePiece(gguf);
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.model: \"", gguf.model, "\" is not supported"));
}

}  // namespace rally
