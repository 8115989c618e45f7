// The loaders: tokenizer.json, vocab.json with merges.txt, tiktoken ranks, a directory of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/text/load_tokenizer.h"

namespace rally {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr EncodeOptions kPlain = {.add_special_tokens = false, .parse_special_tokens = false};

class TokenizerFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("rally_") + info->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() {
    return LoadTokenizerFromDirectory(folder_.string());
  }
  void ExpectError(absl::StatusCode code, const std::string& part) {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  std::filesystem::path folder_;
};

json ByteLevelJson() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 4, "content": "<bos>", "special": true, "normalized": false, "single_word": false,
       "lstrip": false, "rstrip": false},
      {"id": 5, "content": "<tool>", "special": false, "normalized": false}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
    "post_processor": {"type": "Sequence", "processors": [
      {"type": "ByteLevel", "add_prefix_space": true},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}}],
       "special_tokens": {"<bos>": {"id": "<bos>", "ids": [4], "tokens": ["<bos>"]}}}]},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
      "continuing_subword_prefix": "", "end_of_word_suffix": null, "byte_fallback": false,
      "vocab": {"a": 0, "b": 1, "ab": 2, "1": 3}, "merges": ["a b"]}})");
}

json SentencePieceJson() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "<0x0A>": 4},
      "merges": [["▁", "a"]]}})");
}

TEST_F(TokenizerFiles, ByteLevelTokenizerJson) {
  Write("tokenizer.json", ByteLevelJson().dump());
  Write("tokenizer_config.json", R"({"eos_token": {"content": "<bos>"}})");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab11<tool>", {}), ElementsAre(4, 2, 3, 3, 5));
  EXPECT_THAT((*tokenizer)->Encode("ab", kPlain), ElementsAre(2));
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(4));
}

TEST_F(TokenizerFiles, SentencePieceTokenizerJson) {
  Write("tokenizer.json", SentencePieceJson().dump());
  auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("a a\n", kPlain), ElementsAre(3, 3, 4));
  EXPECT_THAT((*tokenizer)->Encode("xyz", kPlain), ElementsAre(1, 0));  // fused
  EXPECT_EQ((*tokenizer)->Decode(std::vector<int32_t>{3, 3, 4}, false), "a a\n");
}

TEST_F(TokenizerFiles, MetaspaceSchemes) {
  json document = SentencePieceJson();
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  document["added_tokens"].push_back({{"id", 5}, {"content", "<x>"}, {"normalized", false}});
  Write("tokenizer.json", document.dump());
  EXPECT_THAT((*Load())->Encode("a<x>a", kPlain), ElementsAre(3, 5, 2));
  document["pre_tokenizer"]["prepend_scheme"] = "always";
  Write("tokenizer.json", document.dump());
  EXPECT_THAT((*Load())->Encode("a<x> a", kPlain), ElementsAre(3, 5, 3));
  document["pre_tokenizer"]["prepend_scheme"] = "never";
  Write("tokenizer.json", document.dump());
  EXPECT_THAT((*Load())->Encode("a", kPlain), ElementsAre(2));
}

// Each case changes one part of a good file; the error names the part.
TEST_F(TokenizerFiles, UnsupportedPartsAreNamed) {
  const auto unsupported = [&](const char* pointer, const json& value, const std::string& part) {
    json document = ByteLevelJson();
    document[json::json_pointer(pointer)] = value;
    Write("tokenizer.json", document.dump());
    ExpectError(absl::StatusCode::kUnimplemented, part);
  };
  unsupported("/model/type", "WordPiece", "model.type: WordPiece");
  unsupported("/model/dropout", 0.1, "model.dropout");
  unsupported("/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix");
  unsupported("/normalizer", {{"type", "Lowercase"}}, "normalizer: Lowercase");
  unsupported("/pre_tokenizer/pretokenizers/0", {{"type", "Whitespace"}},
              "pre_tokenizer.pretokenizers[0]: Whitespace");
  unsupported("/pre_tokenizer/pretokenizers/0",
              {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a+)+$"}}}},
              "pre_tokenizer.pretokenizers[0].pattern.Regex: (a+)+$");
  unsupported("/post_processor", {{"type", "BertProcessing"}}, "post_processor: BertProcessing");
  unsupported("/decoder", {{"type", "WordPiece"}}, "decoder: WordPiece");
  unsupported("/added_tokens/0/single_word", true, "added_tokens[0].single_word");
}

TEST_F(TokenizerFiles, WrongFilesAreRefused) {
  const auto invalid = [&](const char* pointer, const json& value, const std::string& part) {
    json document = ByteLevelJson();
    document[json::json_pointer(pointer)] = value;
    Write("tokenizer.json", document.dump());
    ExpectError(absl::StatusCode::kInvalidArgument, part);
  };
  invalid("/model/vocab/b", 0, "id 0 is both");
  invalid("/model/vocab/b", -1, "id -1 is not in");
  invalid("/model/vocab/b", 4000000000u, "id 4000000000 is not in");
  invalid("/model/vocab/b", 1.5, "an integer was expected");
  invalid("/model/vocab/b", "1", "an integer was expected");
  invalid("/model/merges/0", "a", "model.merges[0]");
  invalid("/model/merges/0", "b a", "\"ba\" is not in the vocabulary");
  invalid("/model/merges/0", json::array({"a"}), "model.merges[0]");
  invalid("/model/unk_token", "<unk>", "model.unk_token");
  invalid("/added_tokens/1/id", 0, "contradicts the vocabulary");
  invalid("/added_tokens/1/id", 18446744073709551615u, "added_tokens[1].id");
  invalid("/post_processor/processors/1/special_tokens/<bos>/ids/0", 6, "post_processor");
  invalid("/added_tokens", "x", "an array was expected");
  Write("tokenizer.json", "{\"model\": ");
  ExpectError(absl::StatusCode::kInvalidArgument, "tokenizer.json");
  Write("tokenizer.json", "[]");
  ExpectError(absl::StatusCode::kInvalidArgument, "not a JSON object");
  Write("tokenizer.json", std::string(1000000, '['));
  ExpectError(absl::StatusCode::kInvalidArgument, "nested deeper than 32");
  Write("tokenizer.json", ByteLevelJson().dump());
  Write("tokenizer_config.json", R"({"eos_token": "<eos>"})");
  ExpectError(absl::StatusCode::kInvalidArgument, "eos_token: \"<eos>\" is not in");
}

TEST_F(TokenizerFiles, VocabularyAndMerges) {
  Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})");
  Write("merges.txt", "#version: 0.2\r\na b\r\n");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab<|endoftext|>", kPlain), ElementsAre(2));
  EXPECT_TRUE((*tokenizer)->vocabulary().IsSpecial(3));
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(3));
  Write("merges.txt", "a b\na b b\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "merges.txt:2");
}

TEST_F(TokenizerFiles, TiktokenRanks) {
  Write("gpt2.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\n");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("abab", kPlain), ElementsAre(2, 2));
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(50256));
  Write("gpt2.tiktoken", "YQ== 0\n!! 1\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "gpt2.tiktoken:2");
  Write("gpt2.tiktoken", "YQ== 0\nYg== 0\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "id 0 is both");
  Write("gpt2.tiktoken", "YQ== 0\nYQ== 1\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "repeats a piece");
  Write("other.tiktoken", "");
  ExpectError(absl::StatusCode::kInvalidArgument, "more than one");
}

TEST_F(TokenizerFiles, NothingThere) {
  ExpectError(absl::StatusCode::kNotFound, "no tokenizer.json");
  Write("cl100k.tiktoken", "YQ== 0\n");
  ExpectError(absl::StatusCode::kUnimplemented, "cl100k.tiktoken");
  EXPECT_EQ(LoadTokenizerFromDirectory("/no/such/folder").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace rally
