#include "engine/text/gpt2_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/input_file.h"
#include "engine/base/status_macros.h"
#include "engine/text/absl_view.h"
#include "engine/text/byte_level_bpe.h"
#include "engine/text/json_view.h"
#include "engine/text/spelled_bpe.h"

namespace rally {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

absl::Status ReadVocabulary(const std::string& path, SpelledBpe& spelled) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  RALLY_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(text, path, kTokenizerJsonLimits));
  RALLY_ASSIGN_OR_RETURN(const auto fields, JsonView(json, absl::StrCat(path, ":")).Object());
  for (const auto& [piece, id_view] : fields) {
    RALLY_ASSIGN_OR_RETURN(const int64_t id, id_view.Integer());
    RALLY_RETURN_IF_ERROR(PlacePiece(piece, id, id_view.where(), spelled.pieces));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const std::string& path, SpelledBpe& spelled) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    RALLY_ASSIGN_OR_RETURN(auto merge, SplitMerge(StdView(line), absl::StrCat(path, ":", number)));
    spelled.merges.push_back(std::move(merge));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGpt2Files(const std::string& vocab_json_path,
                                                         const std::string& merges_txt_path) {
  SpelledBpe spelled;
  spelled.source = vocab_json_path;
  RALLY_RETURN_IF_ERROR(ReadVocabulary(vocab_json_path, spelled));
  RALLY_RETURN_IF_ERROR(ReadMerges(merges_txt_path, spelled));
  std::vector<int32_t> eos_ids;
  const auto end = std::find(spelled.pieces.begin(), spelled.pieces.end(), kEndOfText);
  if (end != spelled.pieces.end()) {
    AddedToken& token = spelled.added_tokens.emplace_back();
    token.content = kEndOfText;
    token.id = static_cast<int32_t>(end - spelled.pieces.begin());
    token.special = true;
    eos_ids.push_back(token.id);
  }
  RALLY_ASSIGN_OR_RETURN(BpeParts parts, MakeBpeParts(std::move(spelled), Spelling::kByteLevel));
  parts.eos_ids = std::move(eos_ids);
  return ByteLevelBpe::Create(std::move(parts), {});
}

}  // namespace rally
