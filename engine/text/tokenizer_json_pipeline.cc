#include "engine/text/tokenizer_json_pipeline.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

struct Part {
  std::string type;
  JsonView view;
};

// The parts of a pipeline stage: none for null, those in `list_name` of a Sequence, else one.
// Sequences may be nested; kTokenizerJsonLimits bounds the depth.
absl::StatusOr<std::vector<Part>> ReadParts(const JsonView& stage, std::string_view list_name) {
  std::vector<Part> parts;
  if (stage.is_null()) return parts;
  RALLY_ASSIGN_OR_RETURN(const std::string type, stage["type"].String());
  if (type != "Sequence") {
    parts.push_back({type, stage});
    return parts;
  }
  RALLY_ASSIGN_OR_RETURN(const auto items, stage[list_name].Array());
  for (const JsonView& item : items) {
    RALLY_ASSIGN_OR_RETURN(const std::vector<Part> inner, ReadParts(item, list_name));
    parts.insert(parts.end(), inner.begin(), inner.end());
  }
  return parts;
}

absl::Status UnsupportedPart(const Part& part) { return part.view.Unsupported(part.type); }

absl::Status Require(const JsonView& field, const nlohmann::json& expected) {
  if (field.value() == expected) return absl::OkStatus();
  return field.Unsupported(
      absl::StrCat(field.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

// {"String": " "}, as Replace and Split name what they look for.
nlohmann::json StringPattern(std::string_view text) { return {{"String", std::string(text)}}; }

absl::StatusOr<SplitRule> ReadSplit(const JsonView& split) {
  RALLY_RETURN_IF_ERROR(Require(split["behavior"], "Isolated"));
  RALLY_ASSIGN_OR_RETURN(const bool invert, split["invert"].BoolOr(false));
  if (invert) return split["invert"].Unsupported("true");
  RALLY_ASSIGN_OR_RETURN(const std::string regex, split["pattern"]["Regex"].String());
  const std::optional<SplitRule> rule = SplitRuleOfRegex(regex);
  if (!rule.has_value()) return split["pattern"]["Regex"].Unsupported(regex);
  return *rule;
}

absl::Status ReadByteLevelPreTokenizer(const JsonView& root, ByteLevelBpeOptions& options) {
  options.split_rules.clear();
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> parts,
                         ReadParts(root["pre_tokenizer"], "pretokenizers"));
  for (const Part& part : parts) {
    const bool is_last = &part == &parts.back();
    if (part.type == "Digits") {
      RALLY_ASSIGN_OR_RETURN(const bool individual, part.view["individual_digits"].BoolOr(false));
      if (!individual) return part.view["individual_digits"].Unsupported("false");
      options.split_rules.push_back(SplitRule::kDigit);
    } else if (part.type == "Split") {
      RALLY_ASSIGN_OR_RETURN(options.split_rules.emplace_back(), ReadSplit(part.view));
    } else if (part.type == "ByteLevel" && is_last) {
      RALLY_ASSIGN_OR_RETURN(const bool use_regex, part.view["use_regex"].BoolOr(true));
      RALLY_ASSIGN_OR_RETURN(options.add_prefix_space, part.view["add_prefix_space"].BoolOr(true));
      if (options.add_prefix_space && parts.size() > 1) {
        return part.view["add_prefix_space"].Unsupported("true after another pre-tokenizer");
      }
      if (use_regex) options.split_rules.push_back(SplitRule::kGpt2);
    } else {
      return UnsupportedPart(part);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMetaspace(const JsonView& metaspace, SentencePieceBpeOptions& options) {
  using DummyPrefix = SentencePieceBpeOptions::DummyPrefix;
  RALLY_RETURN_IF_ERROR(Require(metaspace["replacement"], std::string(kBlankPiece)));
  RALLY_ASSIGN_OR_RETURN(options.split_at_blanks, metaspace["split"].BoolOr(true));
  // Files before `prepend_scheme` say "add_prefix_space".
  RALLY_ASSIGN_OR_RETURN(const bool add_prefix, metaspace["add_prefix_space"].BoolOr(true));
  RALLY_ASSIGN_OR_RETURN(const std::string scheme,
                         metaspace["prepend_scheme"].StringOr(add_prefix ? "always" : "never"));
  if (scheme == "always") {
    options.dummy_prefix = DummyPrefix::kEveryStretchUnlessBlank;
  } else if (scheme == "first") {
    options.dummy_prefix = DummyPrefix::kTextUnlessBlank;
  } else if (scheme == "never") {
    options.dummy_prefix = DummyPrefix::kNever;
  } else {
    return metaspace["prepend_scheme"].Unsupported(scheme);
  }
  return absl::OkStatus();
}

// Either a normaliser writes the blanks, with or without one in front, or Metaspace does.
absl::Status ReadBlanks(const JsonView& root, SentencePieceBpeOptions& options) {
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> normalizers,
                         ReadParts(root["normalizer"], "normalizers"));
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> pre_tokenizers,
                         ReadParts(root["pre_tokenizer"], "pretokenizers"));
  options.dummy_prefix = SentencePieceBpeOptions::DummyPrefix::kNever;
  for (const Part& part : normalizers) {
    if (part.type == "Prepend" && &part == &normalizers.front() && normalizers.size() == 2) {
      RALLY_RETURN_IF_ERROR(Require(part.view["prepend"], std::string(kBlankPiece)));
      options.dummy_prefix = SentencePieceBpeOptions::DummyPrefix::kEveryStretch;
    } else if (part.type == "Replace" && &part == &normalizers.back()) {
      RALLY_RETURN_IF_ERROR(Require(part.view["pattern"], StringPattern(" ")));
      RALLY_RETURN_IF_ERROR(Require(part.view["content"], std::string(kBlankPiece)));
    } else {
      return UnsupportedPart(part);
    }
  }
  if (normalizers.size() + pre_tokenizers.size() == 0) {
    return root["pre_tokenizer"].Unsupported("BPE without ByteLevel, Metaspace or Replace");
  }
  for (const Part& part : pre_tokenizers) {
    if (part.type != "Metaspace" || pre_tokenizers.size() + normalizers.size() > 1) {
      return UnsupportedPart(part);
    }
    RALLY_RETURN_IF_ERROR(ReadMetaspace(part.view, options));
  }
  return absl::OkStatus();
}

absl::Status ReadTemplate(const JsonView& processor, TemplateIds& ids) {
  bool after_sequence = false;
  RALLY_ASSIGN_OR_RETURN(const auto pieces, processor["single"].Array());
  for (const JsonView& piece : pieces) {
    if (!piece["Sequence"].is_null()) {
      if (after_sequence) return piece.Unsupported("a second Sequence");
      after_sequence = true;
      continue;
    }
    RALLY_ASSIGN_OR_RETURN(const std::string name, piece["SpecialToken"]["id"].String());
    RALLY_ASSIGN_OR_RETURN(const auto token_ids, processor["special_tokens"][name]["ids"].Array());
    for (const JsonView& token_id : token_ids) {
      RALLY_ASSIGN_OR_RETURN(const int64_t id, token_id.Integer());
      (after_sequence ? ids.suffix : ids.prefix).push_back(id);
    }
  }
  if (!after_sequence) return processor["single"].Error("there is no Sequence");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> IsByteLevel(const JsonView& root) {
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> parts,
                         ReadParts(root["pre_tokenizer"], "pretokenizers"));
  return std::any_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.type == "ByteLevel"; });
}

absl::StatusOr<ByteLevelBpeOptions> ReadByteLevelPipeline(const JsonView& root) {
  ByteLevelBpeOptions options;
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> normalizers,
                         ReadParts(root["normalizer"], "normalizers"));
  for (const Part& part : normalizers) {
    if (part.type != "NFC") return UnsupportedPart(part);
    options.nfc = true;
  }
  RALLY_RETURN_IF_ERROR(ReadByteLevelPreTokenizer(root, options));
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> decoders, ReadParts(root["decoder"], "decoders"));
  for (const Part& part : decoders) {
    if (part.type != "ByteLevel") return UnsupportedPart(part);
  }
  if (decoders.empty()) return root["decoder"].Unsupported("none with a ByteLevel pre-tokenizer");
  return options;
}

absl::StatusOr<SentencePieceBpeOptions> ReadSentencePiecePipeline(const JsonView& root) {
  SentencePieceBpeOptions options;
  RALLY_RETURN_IF_ERROR(ReadBlanks(root, options));
  options.strip_on_decode = false;
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> decoders, ReadParts(root["decoder"], "decoders"));
  for (const Part& part : decoders) {
    if (part.type == "Replace") {
      RALLY_RETURN_IF_ERROR(Require(part.view["pattern"], StringPattern(kBlankPiece)));
      RALLY_RETURN_IF_ERROR(Require(part.view["content"], " "));
    } else if (part.type == "Strip") {
      RALLY_RETURN_IF_ERROR(Require(part.view["content"], " "));
      RALLY_RETURN_IF_ERROR(Require(part.view["start"], 1));
      RALLY_RETURN_IF_ERROR(Require(part.view["stop"], 0));
      options.strip_on_decode = true;
    } else if (part.type != "ByteFallback" && part.type != "Fuse") {
      return UnsupportedPart(part);
    }
  }
  if (decoders.empty()) return root["decoder"].Unsupported("none with a SentencePiece model");
  return options;
}

absl::StatusOr<TemplateIds> ReadTemplateIds(const JsonView& root) {
  TemplateIds ids;
  RALLY_ASSIGN_OR_RETURN(const std::vector<Part> parts,
                         ReadParts(root["post_processor"], "processors"));
  bool has_template = false;
  for (const Part& part : parts) {
    if (part.type == "ByteLevel") continue;  // moves offsets only
    if (part.type != "TemplateProcessing" || has_template) return UnsupportedPart(part);
    has_template = true;
    RALLY_RETURN_IF_ERROR(ReadTemplate(part.view, ids));
  }
  return ids;
}

}  // namespace rally
