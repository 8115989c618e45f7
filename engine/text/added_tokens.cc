#include "engine/text/added_tokens.h"

#include "engine/text/utf8.h"

namespace rally {
namespace {

size_t WhiteSpaceAtStart(std::string_view text) {
  size_t taken = 0;
  while (taken < text.size()) {
    size_t bytes = 0;
    if (!IsWhiteSpace(FirstCodePoint(text.substr(taken), &bytes))) break;
    taken += bytes;
  }
  return taken;
}

size_t WhiteSpaceAtEnd(std::string_view text) {
  size_t taken = 0;
  while (taken < text.size()) {
    size_t begin = text.size() - taken - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t bytes = 0;
    if (!IsWhiteSpace(FirstCodePoint(text.substr(begin), &bytes))) break;
    taken += bytes;
  }
  return taken;
}

}  // namespace

void AddedTokenMatcher::Add(const AddedToken& token) {
  if (token.content.empty()) return;
  begins_token_[static_cast<uint8_t>(token.content[0])] = true;
  int32_t node = 0;
  for (char c : token.content) {
    const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
    const auto [edge, is_new] = edges_.try_emplace(key, token_of_node_.size());
    if (is_new) token_of_node_.push_back(-1);
    node = edge->second;
  }
  if (token_of_node_[node] >= 0) return;
  token_of_node_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

const AddedToken* AddedTokenMatcher::Longest(std::string_view text) const {
  if (!begins_token_[static_cast<uint8_t>(text[0])]) return nullptr;
  const AddedToken* longest = nullptr;
  int32_t node = 0;
  for (char c : text) {
    const auto edge = edges_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_of_node_[node] >= 0) longest = &tokens_[token_of_node_[node]];
  }
  return longest;
}

std::vector<AddedTokenMatcher::Stretch> AddedTokenMatcher::Split(std::string_view valid_text,
                                                                 bool parse_special) const {
  std::vector<Stretch> stretches;
  size_t plain_begin = 0;
  size_t position = 0;
  while (position < valid_text.size()) {
    const AddedToken* token = Longest(valid_text.substr(position));
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t begin = position;
    position += token->content.size();
    if (token->special && !parse_special) continue;
    const std::string_view before = valid_text.substr(plain_begin, begin - plain_begin);
    if (token->lstrip) begin -= WhiteSpaceAtEnd(before);
    if (token->rstrip) position += WhiteSpaceAtStart(valid_text.substr(position));
    if (begin > plain_begin) {
      stretches.push_back({valid_text.substr(plain_begin, begin - plain_begin)});
    }
    stretches.push_back({valid_text.substr(begin, position - begin), token->id});
    plain_begin = position;
  }
  if (plain_begin < valid_text.size()) stretches.push_back({valid_text.substr(plain_begin)});
  return stretches;
}

}  // namespace rally
