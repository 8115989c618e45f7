#include "engine/model/gguf.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gguf, ReadsEveryMetadataTypeAndTensors) {
  GgufBytes gguf;
  gguf.Add("u8", 0, Raw(uint8_t{200}));
  gguf.Add("i8", 1, Raw(int8_t{-5}));
  gguf.Add("u16", 2, Raw(uint16_t{60000}));
  gguf.Add("i16", 3, Raw(int16_t{-300}));
  gguf.AddU32("u32", 4'000'000'000u);
  gguf.Add("i32", 5, Raw(int32_t{-7}));
  gguf.AddF32("f32", 0.5f);
  gguf.Add("bool", 7, Raw(uint8_t{1}));
  gguf.AddString("string", "text");
  gguf.Add("array", 9, Raw(uint32_t{8}) + Raw(uint64_t{2}) + GgufString("a") + GgufString("bc"));
  gguf.Add("u64", 10, Raw(~uint64_t{0}));
  gguf.Add("i64", 11, Raw(int64_t{-9}));
  gguf.Add("f64", 12, Raw(0.25));
  gguf.AddTensor("matrix", {32, 3}, 8, 0);  // Q8_0
  gguf.AddTensor("vector", {2}, 0, 128);
  TempDir dir;
  for (const uint32_t version : {2u, 3u}) {
    const auto file = OpenGguf(dir.Write("m.gguf", gguf.Bytes(std::string(136, '\0'), version)));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto expected = nlohmann::json::parse(
        R"({"u8":200,"i8":-5,"u16":60000,"i16":-300,"u32":4000000000,"i32":-7,"f32":0.5,
            "bool":true,"string":"text","array":["a","bc"],"u64":18446744073709551615,"i64":-9,
            "f64":0.25})");
    EXPECT_EQ(file->metadata, expected);
    ASSERT_EQ(file->tensors.size(), 2u);
    EXPECT_EQ(file->tensors[0].name, "matrix");
    EXPECT_THAT(file->tensors[0].shape, ElementsAre(3, 32));
    EXPECT_EQ(file->tensors[0].bytes, 3 * 34u);
    EXPECT_EQ(file->tensors[1].offset - file->tensors[0].offset, 128u);
    EXPECT_EQ(file->tensors[0].offset % 32, 0u);
  }
}

std::string Error(const TempDir& dir, std::string_view bytes) {
  const auto file = OpenGguf(dir.Write("m.gguf", bytes));
  if (file.ok()) return "";
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("m.gguf"));
  return std::string(file.status().message());
}

TEST(Gguf, RefusesHeads) {
  TempDir dir;
  GgufBytes empty;
  EXPECT_EQ(Error(dir, empty.Bytes("")), "");
  EXPECT_THAT(Error(dir, "GGUF"), HasSubstr("ends within"));
  EXPECT_THAT(Error(dir, std::string(64, 'x')), HasSubstr("not a GGUF file"));
  EXPECT_THAT(Error(dir, empty.Bytes("", 1)), HasSubstr("version 1"));
  EXPECT_THAT(Error(dir, empty.Bytes("", 3u << 24)), HasSubstr("version"));
  for (const uint64_t count : {uint64_t{1}, ~uint64_t{0}}) {
    GgufBytes lie;
    lie.tensor_count = count;
    EXPECT_NE(Error(dir, lie.Bytes("")), "") << count;
    lie.tensor_count = 0;
    lie.metadata_count = count;
    EXPECT_NE(Error(dir, lie.Bytes("")), "") << count;
  }
}

TEST(Gguf, RefusesLyingMetadata) {
  TempDir dir;
  const auto error = [&](uint32_t type, const std::string& value) {
    GgufBytes gguf;
    gguf.Add("key", type, value);
    return Error(dir, gguf.Bytes(""));
  };
  EXPECT_THAT(error(8, Raw(~uint64_t{0})), HasSubstr("string of"));
  EXPECT_THAT(error(8, Raw(uint64_t{1000})), HasSubstr("string of 1000 bytes"));
  EXPECT_THAT(error(13, Raw(uint64_t{0})), HasSubstr("unknown metadata type 13"));
  EXPECT_THAT(error(7, Raw(uint8_t{2})), HasSubstr("boolean"));
  EXPECT_THAT(error(9, Raw(uint32_t{4}) + Raw(uint64_t{1} << 62)), HasSubstr("array of"));
  EXPECT_THAT(error(9, Raw(uint32_t{99}) + Raw(uint64_t{1}) + std::string(32, '\0')),
              HasSubstr("unknown metadata type 99"));
  std::string nested;
  for (int i = 0; i < 5; ++i) nested += Raw(uint32_t{9}) + Raw(uint64_t{1});
  EXPECT_THAT(error(9, nested + Raw(uint32_t{0}) + Raw(uint64_t{0})), HasSubstr("nested too deep"));
  GgufBytes twice;
  twice.AddU32("key", 1);
  twice.AddU32("key", 1);
  EXPECT_THAT(Error(dir, twice.Bytes("")), HasSubstr("'key' appears twice"));
  for (const uint32_t alignment : {0u, 24u, 1u << 21}) {
    GgufBytes gguf;
    gguf.AddU32("general.alignment", alignment);
    EXPECT_THAT(Error(dir, gguf.Bytes("")), HasSubstr("general.alignment")) << alignment;
  }
}

TEST(Gguf, RefusesLyingTensors) {
  TempDir dir;
  const auto error = [&](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    GgufBytes gguf;
    gguf.AddTensor("t", dims, type, offset);
    return Error(dir, gguf.Bytes(std::string(64, '\0')));
  };
  EXPECT_EQ(error({16}, 0, 0), "");
  EXPECT_THAT(error({17}, 0, 0), HasSubstr("tensor 't' needs 68 bytes"));
  EXPECT_THAT(error({16}, 0, 32), HasSubstr("tensor 't' needs 64 bytes at 32"));
  EXPECT_THAT(error({1}, 0, 4), HasSubstr("unaligned"));
  EXPECT_THAT(error({1}, 0, ~uint64_t{31}), HasSubstr("needs 4 bytes at"));
  EXPECT_THAT(error({1}, 4, 0), HasSubstr("unknown type 4"));
  EXPECT_THAT(error({31}, 8, 0), HasSubstr("no multiple of Q8_0's block"));
  EXPECT_THAT(error({1, 1, 1, 1, 1}, 0, 0), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(error({1, uint64_t{1} << 63}, 0, 0), HasSubstr("beyond 2^63"));
  EXPECT_THAT(error({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), HasSubstr("overflows"));
  GgufBytes overlap;
  overlap.AddTensor("a", {12}, 0, 0);
  overlap.AddTensor("b", {1}, 0, 32);
  EXPECT_THAT(Error(dir, overlap.Bytes(std::string(64, '\0'))),
              HasSubstr("'b' overlaps tensor 'a'"));
  GgufBytes twice;
  twice.AddTensor("a", {1}, 0, 0);
  twice.AddTensor("a", {1}, 0, 32);
  EXPECT_THAT(Error(dir, twice.Bytes(std::string(64, '\0'))), HasSubstr("'a' is stored twice"));
}

TEST(Gguf, RefusesEveryTruncation) {
  TempDir dir;
  const std::string whole = ReadFile(Checkpoint("qwen2_tiny.gguf"));
  EXPECT_EQ(Error(dir, whole), "");
  // Up to 31 bytes of padding after the last tensor may be missing.
  for (size_t size = 0; size + 32 < whole.size(); size += size < 8192 ? 13 : 4097) {
    EXPECT_NE(Error(dir, std::string_view(whole).substr(0, size)), "") << size;
  }
}

}  // namespace
}  // namespace rally
