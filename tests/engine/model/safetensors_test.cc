#include "engine/model/safetensors.h"

#include <filesystem>
#include <string>

#include "engine/model/row_sources.h"
#include "engine/model/safetensors_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Safetensors, ReadsTensorsByOffset) {
  TempDir dir;
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
                             R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[28,28]},)"
                             R"("scalar":{"dtype":"U8","shape":[],"data_offsets":[28,29]}}   )";
  const auto file =
      OpenSafetensors(dir.Write("m.safetensors", SafetensorsBytes(header, std::string(29, '\1'))));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors.size(), 4u);
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_THAT(file->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(file->tensors[0].offset, 8 + header.size());
  EXPECT_EQ(file->tensors[1].name, "b");
  EXPECT_EQ(file->tensors[1].bytes, 4u);
  EXPECT_EQ(file->tensors[3].bytes, 1u);
}

struct Lie {
  const char* header;
  size_t data_bytes;
  const char* message;
};

TEST(Safetensors, RefusesLyingHeaders) {
  const Lie lies[] = {
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "outside the 7 bytes"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "1 bytes of data belong"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "'t' has data_offsets"},
      {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "'t' needs 12 bytes"},
      {R"({"t":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype 'F99'"},
      {R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "does not end on a byte"},
      {R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "no count"},
      {R"({"t":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "no count"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8.0]}})", 8, "no pair"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "no pair"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "no pair"},
      {R"({"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "overflows"},
      {R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "at most 8"},
      {R"({"t":{"shape":[2],"data_offsets":[0,8]}})", 8, "'t' is not described"},
      {R"({"t":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8, "'t' is not described"},
      {R"({"t":[]})", 0, "'t' is not described"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
       7, "'b' overlaps"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
       9, "'b' follows a gap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "key 'a' appears twice"},
      {R"({"t":{"dtype":"F32","shape":[[[[2]]]],"data_offsets":[0,8]}})", 8, "nested deeper"},
      {R"([])", 0, "not a JSON object"},
      {R"({"t":)", 0, "not JSON"},
      {"", 0, "not JSON"},
  };
  TempDir dir;
  for (const Lie& lie : lies) {
    const auto file = OpenSafetensors(dir.Write(
        "m.safetensors", SafetensorsBytes(lie.header, std::string(lie.data_bytes, '\0'))));
    ASSERT_FALSE(file.ok()) << lie.header;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(lie.message)) << lie.header;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("m.safetensors"));
  }
}

TEST(Safetensors, RefusesHeaderLengths) {
  TempDir dir;
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{16}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    const auto file = OpenSafetensors(dir.Write("m", Raw(length) + "{}"));
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("header length")) << length;
  }
  for (size_t size = 0; size < 8; ++size) {
    EXPECT_FALSE(OpenSafetensors(dir.Write("m", std::string(size, '\0'))).ok()) << size;
  }
  EXPECT_TRUE(OpenSafetensors(dir.Write("m", Raw(uint64_t{2}) + "{}")).ok());
}

TEST(Safetensors, FileThatShrinksIsAnError) {
  TempDir dir;
  EditableSafetensors content;
  content.tensors["t"] = {"F32", {4}, RawFloats({1, 2, 3, 4})};
  const std::string path = dir.Write("model.safetensors", content.Bytes());
  auto set = OpenSafetensorsModel(dir.path());
  ASSERT_TRUE(set.ok()) << set.status();
  const auto rows = set->Vector("t", 4);
  ASSERT_NE(rows, nullptr) << set->status();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  float out[4];
  const absl::Status status = rows->Read(0, 1, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST(Safetensors, DecodesEveryFloatType) {
  TempDir dir;
  EditableSafetensors content;
  const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x0400, 0x8000};
  const uint16_t brain[] = {0x3f80, 0xc000, 0x0001, 0x7f7f};
  content.tensors["f16"] = {"F16", {2, 3}, Raw(half)};
  content.tensors["bf16"] = {"BF16", {4}, Raw(brain)};
  content.tensors["mask"] = {"BOOL", {1}, "\1"};
  dir.Write("model.safetensors", content.Bytes());
  auto set = OpenSafetensorsModel(dir.path());
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(ReadAll(*set->Matrix("f16", 2, 3)),
              ElementsAre(1, -2, 0x1p-24f, 65504, 0x1p-14f, -0.0f));
  EXPECT_THAT(ReadAll(*set->Vector("bf16", 4)), ElementsAre(1, -2, 0x1p-133f, 0x1.fep127f));
  EXPECT_EQ(set->Vector("mask", 1), nullptr);
  EXPECT_EQ(set->status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(set->status().message()), HasSubstr("'mask' has type BOOL"));
}

TEST(Safetensors, NamesTensorWithNan) {
  TempDir dir;
  for (const uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xff800000u}) {
    EditableSafetensors content;
    content.tensors["w"] = {"F32", {1, 2}, Raw(1.0f) + Raw(bits)};
    dir.Write("model.safetensors", content.Bytes());
    auto set = OpenSafetensorsModel(dir.path());
    ASSERT_TRUE(set.ok()) << set.status();
    float out[2];
    const absl::Status status = set->Matrix("w", 1, 2)->Read(0, 1, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'w' holds NaN"));
  }
}

class Shards : public testing::Test {
 protected:
  void SetUp() override {
    first_.tensors["a"] = {"F32", {1}, Raw(1.0f)};
    second_.tensors["b"] = {"F32", {1}, Raw(2.0f)};
    dir_.Write("one.safetensors", first_.Bytes());
    dir_.Write("two.safetensors", second_.Bytes());
    Index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  }
  void Index(const std::string& weight_map) {
    dir_.Write("model.safetensors.index.json",
               R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  std::string Error() {
    const auto set = OpenSafetensorsModel(dir_.path());
    return set.ok() ? "" : std::string(set.status().message());
  }

  TempDir dir_;
  EditableSafetensors first_, second_;
};

TEST_F(Shards, IndexAloneSaysWhatIsRead) {
  dir_.Write("model.safetensors", "not even a header");
  auto set = OpenSafetensorsModel(dir_.path());
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(ReadAll(*set->Vector("b", 1)), ElementsAre(2));
}

TEST_F(Shards, MissingShardIsNamed) {
  std::filesystem::remove(dir_.path() + "/two.safetensors");
  EXPECT_THAT(Error(), HasSubstr("'two.safetensors' is missing"));
}

TEST_F(Shards, MissingTensorIsNamed) {
  Index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  EXPECT_THAT(Error(), HasSubstr("two.safetensors: tensor 'c' of the index is missing"));
}

TEST_F(Shards, UnlistedAndMisplacedTensorsAreNamed) {
  Index(R"({"a":"one.safetensors"})");
  second_.tensors["a"] = {"F32", {1}, Raw(1.0f)};
  EXPECT_EQ(Error(), "");  // two.safetensors is not in the index
  dir_.Write("two.safetensors", second_.Bytes());
  Index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_THAT(Error(), HasSubstr("'a' is stored twice"));
  first_.tensors["x"] = {"F32", {1}, Raw(1.0f)};
  dir_.Write("one.safetensors", first_.Bytes());
  EXPECT_THAT(Error(), HasSubstr("holds tensor 'x', which the index does not place there"));
}

TEST_F(Shards, StayInTheDirectory) {
  TempDir other;
  other.Write("two.safetensors", second_.Bytes());
  for (const std::string name : {"../two.safetensors", "/etc/passwd", "..", "", "sub/two"}) {
    Index(R"({"a":"one.safetensors","b":")" + name + R"("})");
    EXPECT_THAT(Error(), HasSubstr("is not a plain file name")) << name;
  }
  std::filesystem::create_symlink(other.path() + "/two.safetensors", dir_.path() + "/link");
  Index(R"({"a":"one.safetensors","b":"link"})");
  EXPECT_THAT(Error(), HasSubstr("is a link out of the model's directory"));
}

TEST_F(Shards, LinksOfAHuggingFaceCacheAreFollowed) {
  TempDir cache;
  const std::string snapshot = cache.path() + "/snapshots/0123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(cache.path() + "/blobs");
  cache.Write("blobs/abc", first_.Bytes());
  std::filesystem::create_symlink("../../blobs/abc", snapshot + "/model.safetensors");
  const auto set = OpenSafetensorsModel(snapshot);
  EXPECT_TRUE(set.ok()) << set.status();
}

TEST_F(Shards, NoWeightsIsNamed) {
  TempDir empty;
  const auto set = OpenSafetensorsModel(empty.path());
  EXPECT_EQ(set.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace rally
