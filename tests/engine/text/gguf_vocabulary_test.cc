#include "engine/text/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

namespace rally {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kPlain = {.add_special_tokens = false, .parse_special_tokens = false};

// <unk> 0, <s> 1, </s> 2, bytes 3 to 258, then the pieces below from 259 on.
GgufVocabulary Llama() {
  GgufVocabulary gguf;
  gguf.model = "llama";
  gguf.tokens = {"<unk>", "<s>", "</s>"};
  gguf.token_types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    gguf.tokens.push_back(absl::StrFormat("<0x%02X>", byte));
    gguf.token_types.push_back(6);
  }
  for (const char* piece : {"\xE2\x96\x81", "a", "b", "ab",
                            "\xE2\x96\x81"
                            "a",
                            "<", "s", ">", "s>", "<s"}) {
    gguf.tokens.emplace_back(piece);
    gguf.token_types.push_back(1);
  }
  for (size_t id = 0; id < gguf.tokens.size(); ++id) gguf.scores.push_back(-1.0f * id);
  gguf.bos_id = 1;
  gguf.eos_id = 2;
  gguf.unknown_id = 0;
  return gguf;
}

GgufVocabulary Gpt2() {
  GgufVocabulary gguf;
  gguf.model = "gpt2";
  gguf.pre = "smollm";
  gguf.tokens = {"a", "b", "ab", "<|im_end|>", "<|eot_id|>", "<tool>", "<|im_start|>"};
  gguf.token_types = {1, 1, 1, 3, 1, 4, 3};
  gguf.merges = {"a b"};
  gguf.eos_id = 6;
  return gguf;
}

std::unique_ptr<Tokenizer> Make(const GgufVocabulary& gguf) {
  auto tokenizer = MakeGgufTokenizer(gguf);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(GgufLlama, MergesByScoreAndAddsBosAndBlank) {
  const auto tokenizer = Make(Llama());
  EXPECT_THAT(tokenizer->Encode("ab", {}), ElementsAre(1, 259, 262));  // "ab" scores above "▁a"
  EXPECT_THAT(tokenizer->Encode("a", {}), ElementsAre(1, 263));
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre(1));
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(2));
}

TEST(GgufLlama, UnknownCodePointsFallBackToBytes) {
  const auto tokenizer = Make(Llama());
  EXPECT_THAT(tokenizer->Encode("\xC3\xA9", kPlain), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(tokenizer->vocabulary().TextBytes(3 + 0xC3), "\xC3");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{259, 3 + 0xC3, 3 + 0xA9}, false), "\xC3\xA9");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{259, 3 + 0xC3}, false), "\xEF\xBF\xBD");
}

TEST(GgufLlama, DecodeTakesOneBlankOff) {
  const auto tokenizer = Make(Llama());
  EXPECT_EQ(tokenizer->vocabulary().TextBytes(263), " a");
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("  a", {}), false), "  a");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{263, 263}, false), "a a");
}

TEST(GgufLlama, TextDoesNotBecomeControlTokens) {
  const auto tokenizer = Make(Llama());
  // The pieces "<", "s", ">" could merge by way of "<s" and "s>"; "<s>" itself is out of reach.
  EXPECT_THAT(tokenizer->Encode("<s>", kPlain), ElementsAre(259, 264, 267));
  EXPECT_THAT(tokenizer->Encode("<s>", {.add_special_tokens = false, .parse_special_tokens = true}),
              ElementsAre(1));
}

TEST(GgufLlama, FlagsOfTheFileHold) {
  GgufVocabulary gguf = Llama();
  gguf.has_add_bos = gguf.has_add_space_prefix = true;
  gguf.add_eos = true;
  const auto tokenizer = Make(gguf);
  EXPECT_THAT(tokenizer->Encode("a", {}), ElementsAre(260, 2));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{263}, false), " a");
}

TEST(GgufGpt2, TypesOfTokens) {
  const auto tokenizer = Make(Gpt2());
  EXPECT_THAT(tokenizer->Encode("ab<tool><|im_end|>", {}), ElementsAre(2, 5));
  EXPECT_TRUE(tokenizer->vocabulary().IsSpecial(3));
  EXPECT_FALSE(tokenizer->vocabulary().IsSpecial(5));
  // <|eot_id|> is a normal token here, so it ends nothing.
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(6, 3));
}

TEST(GgufGpt2, Llama3AddsBosAndIgnoresMerges) {
  GgufVocabulary gguf = Gpt2();
  gguf.pre = "llama-bpe";
  gguf.tokens.push_back("abb");
  gguf.token_types.push_back(1);
  gguf.bos_id = 6;
  EXPECT_THAT(Make(gguf)->Encode("abb", {}), ElementsAre(6, 7));
}

void ExpectError(const GgufVocabulary& gguf, absl::StatusCode code, const std::string& key) {
  const absl::Status status = MakeGgufTokenizer(gguf).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(key));
}

TEST(GgufVocabulary, ErrorsNameTheKey) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  GgufVocabulary gguf = Gpt2();
  gguf.pre = "tekken";
  ExpectError(gguf, absl::StatusCode::kUnimplemented, "tokenizer.ggml.pre: \"tekken\"");
  gguf = Gpt2();
  gguf.model = "t5";
  ExpectError(gguf, absl::StatusCode::kUnimplemented, "tokenizer.ggml.model: \"t5\"");
  ExpectError(GgufVocabulary(), kInvalid, "tokenizer.ggml.tokens");
  gguf = Gpt2();
  gguf.token_types.pop_back();
  ExpectError(gguf, kInvalid, "tokenizer.ggml.token_type");
  gguf = Gpt2();
  gguf.token_types[0] = 9;
  ExpectError(gguf, kInvalid, "tokenizer.ggml.token_type");
  gguf = Gpt2();
  gguf.merges.push_back("a b c");
  ExpectError(gguf, kInvalid, "tokenizer.ggml.merges[1]");
  gguf = Gpt2();
  gguf.eos_id = 7;
  ExpectError(gguf, kInvalid, "tokenizer.ggml.eos_token_id");
  gguf = Gpt2();
  gguf.has_add_bos = gguf.add_bos = true;
  ExpectError(gguf, kInvalid, "tokenizer.ggml.bos_token_id");
  gguf = Llama();
  gguf.scores.pop_back();
  ExpectError(gguf, kInvalid, "tokenizer.ggml.scores");
  gguf = Llama();
  gguf.scores[260] = std::numeric_limits<float>::quiet_NaN();
  ExpectError(gguf, kInvalid, "tokenizer.ggml.scores");
}

}  // namespace
}  // namespace rally
