// Tokens that stand outside of byte pair encoding: they are found in the text before it is cut.
#ifndef RALLY_ENGINE_TEXT_ADDED_TOKENS_H_
#define RALLY_ENGINE_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rally {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;     // a control token: found only when the caller asks for it
  bool normalized = false;  // found in the normalised text, else in the text as it came
  bool lstrip = false;      // takes the white space on its left along
  bool rstrip = false;      // and on its right
};

// Finds added tokens as `tokenizers` does: leftmost first, the longest of those. Read-only once
// filled. Finding costs O(text bytes x longest content) at worst; contents are short.
class AddedTokenMatcher {
 public:
  struct Stretch {
    std::string_view text;
    int32_t id = -1;  // -1: plain text
  };

  // Of equal contents the first one added is found.
  void Add(const AddedToken& token);
  // The stretches cover `valid_text`; none is empty. A special token that is found while
  // `parse_special` is off is plain text, and so are shorter tokens inside of it.
  std::vector<Stretch> Split(std::string_view valid_text, bool parse_special) const;

 private:
  // The longest token at the beginning of `text`; null if there is none.
  const AddedToken* Longest(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  // A trie over bytes: (node << 8 | byte) -> node; node 0 is the root. A node's token is an index.
  absl::flat_hash_map<uint64_t, int32_t> edges_;
  std::vector<int32_t> token_of_node_ = {-1};
  std::array<bool, 256> begins_token_ = {};
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_ADDED_TOKENS_H_
