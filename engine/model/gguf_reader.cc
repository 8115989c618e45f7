#include "engine/model/gguf_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rally {
namespace {

using nlohmann::json;

constexpr size_t kWindowBytes = 1 << 16;
constexpr uint64_t kMaxStringBytes = 16 << 20;  // chat templates are the longest
constexpr uint64_t kMaxValues = 8'000'000;      // all arrays together; vocabularies are the longest
constexpr int kMaxDepth = 3;

enum MetadataType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Bytes that one value takes at least.
uint64_t MinBytes(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBool:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kArray:
      return 12;
    default:
      return 8;
  }
}

}  // namespace

void GgufReader::Fail(absl::string_view message) {
  status_.Update(absl::InvalidArgumentError(
      absl::StrCat(file_.path(), ": ", message, " (byte ", position_, ")")));
}

void GgufReader::Bytes(void* out, size_t bytes) {
  if (!status_.ok()) return;
  if (bytes > remaining()) return Fail("ends within its header");
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    if (window_at_ == window_.size()) {
      window_.resize(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, remaining())));
      window_at_ = 0;
      status_.Update(file_.ReadAt(position_, window_.data(), window_.size()));
      if (!status_.ok()) return;
    }
    const size_t n = std::min(bytes, window_.size() - window_at_);
    std::memcpy(to, window_.data() + window_at_, n);
    to += n;
    bytes -= n;
    window_at_ += n;
    position_ += n;
  }
}

std::string GgufReader::String() {
  const auto length = Scalar<uint64_t>();
  if (!status_.ok()) return "";
  if (length > std::min(kMaxStringBytes, remaining())) {
    Fail(absl::StrCat("string of ", length, " bytes"));
    return "";
  }
  std::string text(length, '\0');
  Bytes(text.data(), text.size());
  return text;
}

json GgufReader::Value(uint32_t type, int depth) {
  switch (type) {
    case kU8:
      return Scalar<uint8_t>();
    case kI8:
      return Scalar<int8_t>();
    case kU16:
      return Scalar<uint16_t>();
    case kI16:
      return Scalar<int16_t>();
    case kU32:
      return Scalar<uint32_t>();
    case kI32:
      return Scalar<int32_t>();
    case kU64:
      return Scalar<uint64_t>();
    case kI64:
      return Scalar<int64_t>();
    case kF32:
      return Scalar<float>();
    case kF64:
      return Scalar<double>();
    case kBool: {
      const auto value = Scalar<uint8_t>();
      if (value > 1) Fail("boolean that is neither 0 nor 1");
      return value == 1;
    }
    case kString:
      return String();
    case kArray:
      return Array(depth + 1);
    default:
      Fail(absl::StrCat("unknown metadata type ", type));
      return nullptr;
  }
}

json GgufReader::Array(int depth) {
  const auto type = Scalar<uint32_t>();
  const auto count = Scalar<uint64_t>();
  json array = json::array();
  if (!status_.ok()) return array;
  if (depth > kMaxDepth) {
    Fail("arrays nested too deep");
    return array;
  }
  if (count > remaining() / MinBytes(type) || count > kMaxValues - values_) {
    Fail(absl::StrCat("array of ", count, " values"));
    return array;
  }
  values_ += count;
  for (uint64_t i = 0; i < count && status_.ok(); ++i) array.push_back(Value(type, depth));
  return array;
}

}  // namespace rally
