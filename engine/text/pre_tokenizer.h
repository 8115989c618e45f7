// Cuts text into the pieces that byte pair encoding must not join, by the rules that byte-level
// tokenizers were trained with. The rules are regular expressions, run by PCRE2.
#ifndef RALLY_ENGINE_TEXT_PRE_TOKENIZER_H_
#define RALLY_ENGINE_TEXT_PRE_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rally {

enum class SplitRule { kGpt2, kDigit, kLlama3, kQwen2 };

// The rule that a regular expression of a tokenizer.json stands for. Only known expressions are
// run: one from a file could take exponential time, and dialects differ in details.
std::optional<SplitRule> SplitRuleOfRegex(std::string_view regex);

// The rules, in order, behind a name in `tokenizer.ggml.pre` of a GGUF file.
std::optional<std::vector<SplitRule>> SplitRulesOfGgufPre(std::string_view pre);

// Read-only after Create: any thread may call Split.
class PreTokenizer {
 public:
  // Each rule cuts the pieces that the rule before it left. No rules: no cuts.
  static absl::StatusOr<PreTokenizer> Create(const std::vector<SplitRule>& rules);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // `valid_text` is valid UTF-8. The pieces are views into it and cover it. Linear in practice:
  // each rule scans a stretch of blanks at most three times, anything else once.
  std::vector<std::string_view> Split(std::string_view valid_text) const;

 private:
  class Regex;
  explicit PreTokenizer(std::vector<std::unique_ptr<Regex>> regexes);
  std::vector<std::unique_ptr<Regex>> regexes_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_PRE_TOKENIZER_H_
