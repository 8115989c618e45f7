// The text of every token id: what a detokeniser and a stop matcher need of a tokenizer.
#ifndef RALLY_ENGINE_TEXT_VOCABULARY_H_
#define RALLY_ENGINE_TEXT_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rally {

class Vocabulary {
 public:
  struct Token {
    std::string bytes;     // what the token adds to a text; any bytes, also half a code point
    bool special = false;  // a control token: it adds no text
  };

  explicit Vocabulary(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool Contains(int64_t id) const { return id >= 0 && id < size(); }
  bool IsSpecial(int32_t id) const { return Contains(id) && tokens_[id].special; }
  // Empty for special ids and for ids outside the vocabulary (models pad theirs).
  std::string_view TextBytes(int32_t id) const {
    return !Contains(id) || tokens_[id].special ? std::string_view() : tokens_[id].bytes;
  }
  // The bytes as the vocabulary spells them, special or not.
  std::string_view RawBytes(int32_t id) const {
    return Contains(id) ? std::string_view(tokens_[id].bytes) : std::string_view();
  }

 private:
  std::vector<Token> tokens_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_VOCABULARY_H_
