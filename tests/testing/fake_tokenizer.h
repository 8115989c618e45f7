// A Tokenizer whose ids are the bytes of the text. Id 256 is special and spelled "<eos>".
#ifndef RALLY_TESTS_TESTING_FAKE_TOKENIZER_H_
#define RALLY_TESTS_TESTING_FAKE_TOKENIZER_H_

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace rally {

class FakeTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEos = 256;
  static constexpr int32_t kSize = 257;

  // `on_encode` runs first in each Encode, to make it slow or to count.
  explicit FakeTokenizer(std::function<void()> on_encode = [] {})
      : on_encode_(std::move(on_encode)), vocabulary_(Tokens()) {}

  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    on_encode_();
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string Decode(std::span<const int32_t> ids, bool keep_special) const override {
    std::string text;
    for (const int32_t id : ids) {
      text += keep_special ? vocabulary_.RawBytes(id) : vocabulary_.TextBytes(id);
    }
    return text;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const std::vector<int32_t>& eos_ids() const override { return eos_ids_; }

 private:
  static std::vector<Vocabulary::Token> Tokens() {
    std::vector<Vocabulary::Token> tokens;
    for (int i = 0; i < 256; ++i) tokens.push_back({std::string(1, static_cast<char>(i)), false});
    tokens.push_back({"<eos>", true});
    return tokens;
  }

  const std::function<void()> on_encode_;
  const Vocabulary vocabulary_;
  const std::vector<int32_t> eos_ids_ = {kEos};
};

}  // namespace rally

#endif  // RALLY_TESTS_TESTING_FAKE_TOKENIZER_H_
