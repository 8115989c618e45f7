#include "engine/text/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/input_file.h"
#include "engine/base/status_macros.h"
#include "engine/text/json_view.h"
#include "engine/text/spelled_bpe.h"
#include "engine/text/tokenizer_json_pipeline.h"

namespace rally {
namespace {

absl::Status CheckModel(const JsonView& model) {
  RALLY_ASSIGN_OR_RETURN(const std::string type, model["type"].String());
  if (type != "BPE") return model["type"].Unsupported(type);
  if (!model["dropout"].is_null() && model["dropout"].value() != 0) {
    return model["dropout"].Unsupported("dropout");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    RALLY_ASSIGN_OR_RETURN(const std::string affix, model[name].StringOr(""));
    if (!affix.empty()) return model[name].Unsupported(affix);
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const JsonView& merges, SpelledBpe& spelled) {
  RALLY_ASSIGN_OR_RETURN(const auto items, merges.Array());
  for (const JsonView& item : items) {
    if (item.value().is_string()) {
      RALLY_ASSIGN_OR_RETURN(const std::string line, item.String());
      RALLY_ASSIGN_OR_RETURN(auto merge, SplitMerge(line, item.where()));
      spelled.merges.push_back(std::move(merge));
      continue;
    }
    RALLY_ASSIGN_OR_RETURN(const auto halves, item.Array());
    if (halves.size() != 2) return item.Error("a merge has two parts");
    RALLY_ASSIGN_OR_RETURN(std::string left, halves[0].String());
    RALLY_ASSIGN_OR_RETURN(std::string right, halves[1].String());
    spelled.merges.emplace_back(std::move(left), std::move(right));
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const JsonView& list, SpelledBpe& spelled) {
  if (list.is_null()) return absl::OkStatus();
  RALLY_ASSIGN_OR_RETURN(const auto items, list.Array());
  for (const JsonView& item : items) {
    AddedToken& token = spelled.added_tokens.emplace_back();
    RALLY_ASSIGN_OR_RETURN(token.content, item["content"].String());
    RALLY_ASSIGN_OR_RETURN(const int64_t id, item["id"].Integer());
    if (id < 0 || id >= kMaxVocabularySize) return item["id"].Error("is out of range");
    token.id = static_cast<int32_t>(id);
    RALLY_ASSIGN_OR_RETURN(token.special, item["special"].BoolOr(false));
    RALLY_ASSIGN_OR_RETURN(token.normalized, item["normalized"].BoolOr(!token.special));
    RALLY_ASSIGN_OR_RETURN(token.lstrip, item["lstrip"].BoolOr(false));
    RALLY_ASSIGN_OR_RETURN(token.rstrip, item["rstrip"].BoolOr(false));
    RALLY_ASSIGN_OR_RETURN(const bool single_word, item["single_word"].BoolOr(false));
    if (single_word) return item["single_word"].Unsupported("true");
  }
  return absl::OkStatus();
}

absl::StatusOr<SpelledBpe> ReadSpelledBpe(const JsonView& root, const std::string& path) {
  SpelledBpe spelled;
  spelled.source = path;
  RALLY_RETURN_IF_ERROR(CheckModel(root["model"]));
  RALLY_ASSIGN_OR_RETURN(const auto vocabulary, root["model"]["vocab"].Object());
  for (const auto& [piece, id_view] : vocabulary) {
    RALLY_ASSIGN_OR_RETURN(const int64_t id, id_view.Integer());
    RALLY_RETURN_IF_ERROR(PlacePiece(piece, id, id_view.where(), spelled.pieces));
  }
  RALLY_RETURN_IF_ERROR(ReadMerges(root["model"]["merges"], spelled));
  RALLY_RETURN_IF_ERROR(ReadAddedTokens(root["added_tokens"], spelled));
  return spelled;
}

// The id of a token that another field names.
absl::StatusOr<int32_t> FindToken(const SpelledBpe& spelled, const JsonView& name_view) {
  RALLY_ASSIGN_OR_RETURN(const std::string name, name_view.String());
  for (const AddedToken& token : spelled.added_tokens) {
    if (token.content == name) return token.id;
  }
  const auto piece = std::find(spelled.pieces.begin(), spelled.pieces.end(), name);
  if (name.empty() || piece == spelled.pieces.end()) {
    return name_view.Error(absl::StrCat("\"", name, "\" is not in the vocabulary"));
  }
  return static_cast<int32_t>(piece - spelled.pieces.begin());
}

absl::StatusOr<std::vector<int32_t>> ReadEosIds(const std::string& path,
                                                const SpelledBpe& spelled) {
  const std::string config_path =
      (std::filesystem::path(path).parent_path() / "tokenizer_config.json").string();
  const absl::StatusOr<std::string> text = ReadTextFile(config_path);
  if (absl::IsNotFound(text.status())) return std::vector<int32_t>();
  RALLY_RETURN_IF_ERROR(text.status());
  RALLY_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(*text, config_path, kTokenizerJsonLimits));
  const JsonView field = JsonView(json, absl::StrCat(config_path, ":"))["eos_token"];
  if (field.is_null()) return std::vector<int32_t>();
  // A plain string, or an added token as an object.
  const JsonView name = field.value().is_object() ? field["content"] : field;
  RALLY_ASSIGN_OR_RETURN(const int32_t id, FindToken(spelled, name));
  return std::vector<int32_t>{id};
}

absl::StatusOr<std::vector<int32_t>> CheckIds(const std::vector<int64_t>& ids,
                                              const BpeParts& parts, const JsonView& place) {
  std::vector<int32_t> checked;
  for (int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(parts.tokens.size())) {
      return place.Error(absl::StrCat("id ", id, " is not in the vocabulary"));
    }
    checked.push_back(static_cast<int32_t>(id));
  }
  return checked;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(const JsonView& root,
                                                         const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(SpelledBpe spelled, ReadSpelledBpe(root, path));
  const JsonView model = root["model"];
  std::optional<int32_t> unknown_id;
  if (!model["unk_token"].is_null() && model["unk_token"].value() != "") {
    RALLY_ASSIGN_OR_RETURN(unknown_id, FindToken(spelled, model["unk_token"]));
  }
  RALLY_ASSIGN_OR_RETURN(const bool fuse_unknown, model["fuse_unk"].BoolOr(false));
  RALLY_ASSIGN_OR_RETURN(const bool ignore_merges, model["ignore_merges"].BoolOr(false));
  RALLY_ASSIGN_OR_RETURN(std::vector<int32_t> eos_ids, ReadEosIds(path, spelled));
  RALLY_ASSIGN_OR_RETURN(const bool byte_level, IsByteLevel(root));
  RALLY_ASSIGN_OR_RETURN(
      BpeParts parts, MakeBpeParts(std::move(spelled),
                                   byte_level ? Spelling::kByteLevel : Spelling::kSentencePiece));
  parts.eos_ids = std::move(eos_ids);
  RALLY_ASSIGN_OR_RETURN(const TemplateIds around, ReadTemplateIds(root));
  const JsonView place = root["post_processor"];
  RALLY_ASSIGN_OR_RETURN(parts.prefix_ids, CheckIds(around.prefix, parts, place));
  RALLY_ASSIGN_OR_RETURN(parts.suffix_ids, CheckIds(around.suffix, parts, place));
  if (byte_level) {
    RALLY_ASSIGN_OR_RETURN(ByteLevelBpeOptions options, ReadByteLevelPipeline(root));
    options.ignore_merges = ignore_merges;
    options.unknown_id = unknown_id;
    options.fuse_unknown = fuse_unknown;
    return ByteLevelBpe::Create(std::move(parts), options);
  }
  RALLY_ASSIGN_OR_RETURN(SentencePieceBpeOptions options, ReadSentencePiecePipeline(root));
  RALLY_ASSIGN_OR_RETURN(options.byte_fallback, model["byte_fallback"].BoolOr(false));
  options.ignore_merges = ignore_merges;
  options.unknown_id = unknown_id;
  options.fuse_unknown = fuse_unknown;
  return std::make_unique<SentencePieceBpe>(std::move(parts), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  RALLY_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(text, path, kTokenizerJsonLimits));
  return MakeTokenizer(JsonView(json, absl::StrCat(path, ":")), path);
}

}  // namespace rally
