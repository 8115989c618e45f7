// Against values that the `gguf` package computes (tests/fixtures/make_format_expected.py).
#include <cstddef>
#include <string>
#include <vector>

#include "engine/model/gguf_types.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(GgufDequantize, EqualsTheReferenceBitForBit) {
  const auto fixture = nlohmann::json::parse(ReadFile(FixturePath("gguf_blocks.json")));
  ASSERT_EQ(fixture["cases"].size(), 10u);
  for (const auto& entry : fixture["cases"]) {
    const GgufType* type = FindGgufType(entry["type"]);
    ASSERT_NE(type, nullptr) << entry["name"];
    EXPECT_EQ(type->name, entry["name"].get<std::string>());
    ASSERT_NE(type->decode, nullptr) << type->name;
    const std::vector<std::byte> blocks = FromHex(entry["blocks"]);
    const std::vector<float> expected = entry["values"];
    ASSERT_EQ(blocks.size() / static_cast<size_t>(type->block_bytes) *
                  static_cast<size_t>(type->block_elements),
              expected.size());
    std::vector<float> values(expected.size());
    type->decode(blocks.data(), static_cast<int64_t>(values.size()), values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], expected[i]) << type->name << " element " << i;
    }
  }
}

TEST(GgufTypes, UnknownIdsAreNull) {
  for (const uint32_t id : {4u, 5u, 31u, 33u, 1000u, ~0u}) EXPECT_EQ(FindGgufType(id), nullptr);
}

}  // namespace
}  // namespace rally
