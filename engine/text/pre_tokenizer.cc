#include "engine/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

// As the published tokenizer.json files spell them.
constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string_view RegexOf(SplitRule rule) {
  switch (rule) {
    case SplitRule::kGpt2:
      return kGpt2Regex;
    case SplitRule::kDigit:
      return R"(\p{N})";
    case SplitRule::kLlama3:
      return kLlama3Regex;
    case SplitRule::kQwen2:
      return kQwen2Regex;
  }
  return {};
}

// PCRE2's classes differ from those of the engines that tokenizers are trained with. Its \s also
// takes U+180E, which is no White_Space, and PCRE2 10.42 has the letters and numbers of Unicode 14;
// the lists after \p{L} and \p{N} are those that came with Unicode 15 and 16.
constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kLetters =
    R"(\p{L}\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3})"
    R"(\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}\x{11240})"
    R"(\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3})"
    R"(\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF})"
    R"(\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB})"
    R"(\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kNumbers =
    R"(\p{N}\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3})"
    R"(\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

std::string SpellOutClasses(std::string_view regex) {
  static constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
      {R"(\s)", kWhiteSpace}, {R"(\p{L})", kLetters}, {R"(\p{N})", kNumbers}};
  std::string spelled;
  bool in_brackets = false;
  while (!regex.empty()) {
    if (regex.starts_with(R"(\S)")) {
      spelled.append("[^").append(kWhiteSpace).append("]");
      regex.remove_prefix(2);
      continue;
    }
    const auto found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                    [&](const auto& c) { return regex.starts_with(c.first); });
    if (found != std::end(kClasses)) {
      spelled.append(in_brackets ? "" : "[").append(found->second).append(in_brackets ? "" : "]");
      regex.remove_prefix(found->first.size());
      continue;
    }
    if (regex[0] == '[' || regex[0] == ']') in_brackets = regex[0] == '[';
    spelled += regex[0];
    regex.remove_prefix(1);
  }
  return spelled;
}

}  // namespace

class PreTokenizer::Regex {
 public:
  static absl::StatusOr<std::unique_ptr<Regex>> Create(SplitRule rule) {
    const std::string pattern = SpellOutClasses(RegexOf(rule));
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code == nullptr) {
      return absl::InternalError(
          absl::StrCat("PCRE2 error ", error, " at offset ", offset, " of ", pattern));
    }
    // Where PCRE2 has no JIT for this processor, its interpreter does the same work.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return std::make_unique<Regex>(code);
  }

  explicit Regex(pcre2_code* code) : code_(code), limits_(pcre2_match_context_create(nullptr)) {
    // The rules backtrack by one stretch of blanks at most, so the limits guard nothing.
    pcre2_set_match_limit(limits_, UINT32_MAX);
    pcre2_set_depth_limit(limits_, UINT32_MAX);
    pcre2_set_heap_limit(limits_, UINT32_MAX);
  }
  ~Regex() {
    pcre2_match_context_free(limits_);
    pcre2_code_free(code_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Appends the matches in `text` and what lies between them.
  void Split(std::string_view text, pcre2_match_data* match,
             std::vector<std::string_view>& pieces) const {
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
    size_t position = 0;
    while (position < text.size() && Match(text, position, match)) {
      const size_t begin = range[0];
      const size_t end = range[1];
      if (begin > position) pieces.push_back(text.substr(position, begin - position));
      pieces.push_back(text.substr(begin, end - begin));
      position = end;
    }
    if (position < text.size()) pieces.push_back(text.substr(position));
  }

 private:
  // False: no match. No rule matches the empty string. The check of the text is off: it is valid,
  // and checking all of it at each match would be quadratic.
  bool Match(std::string_view text, size_t from, pcre2_match_data* match) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int rc = pcre2_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK, match, limits_);
    if (rc < PCRE2_ERROR_NOMATCH) {
      // JIT code has a stack of fixed size; the interpreter takes memory as it needs it.
      rc = pcre2_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                       limits_);
    }
    return rc > 0;
  }

  pcre2_code* code_;
  pcre2_match_context* limits_;
};

std::optional<SplitRule> SplitRuleOfRegex(std::string_view regex) {
  for (SplitRule rule : {SplitRule::kGpt2, SplitRule::kLlama3, SplitRule::kQwen2}) {
    if (regex == RegexOf(rule)) return rule;
  }
  return std::nullopt;
}

std::optional<std::vector<SplitRule>> SplitRulesOfGgufPre(std::string_view pre) {
  using Rules = std::vector<SplitRule>;
  if (pre == "gpt-2" || pre == "default" || pre.empty()) return Rules{SplitRule::kGpt2};
  if (pre == "smollm" || pre == "refact" || pre == "starcoder") {
    return Rules{SplitRule::kDigit, SplitRule::kGpt2};
  }
  if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") return Rules{SplitRule::kLlama3};
  if (pre == "qwen2" || pre == "deepseek-r1-qwen") return Rules{SplitRule::kQwen2};
  return std::nullopt;
}

PreTokenizer::PreTokenizer(std::vector<std::unique_ptr<Regex>> regexes)
    : regexes_(std::move(regexes)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<SplitRule>& rules) {
  std::vector<std::unique_ptr<Regex>> regexes;
  for (SplitRule rule : rules) {
    RALLY_ASSIGN_OR_RETURN(regexes.emplace_back(), Regex::Create(rule));
  }
  return PreTokenizer(std::move(regexes));
}

std::vector<std::string_view> PreTokenizer::Split(std::string_view valid_text) const {
  std::vector<std::string_view> pieces = {valid_text};
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  for (const std::unique_ptr<Regex>& regex : regexes_) {
    std::vector<std::string_view> cut;
    for (std::string_view piece : pieces) regex->Split(piece, match, cut);
    pieces = std::move(cut);
  }
  pcre2_match_data_free(match);
  return pieces;
}

}  // namespace rally
