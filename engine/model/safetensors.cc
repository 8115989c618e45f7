#include "engine/model/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/checked_json.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation
constexpr size_t kMaxRank = 8;

struct Dtype {
  const char* name;
  uint64_t bits;
};
constexpr auto kDtypes = std::to_array<Dtype>(
    {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
     {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}});

absl::Status Bad(absl::string_view path, absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", name, "' ", what));
}

// Bytes of a tensor, or nothing where the product overflows or is no whole number of bytes.
absl::StatusOr<uint64_t> TensorBytes(absl::string_view path, const SafetensorsTensor& tensor) {
  const auto dtype = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& d) { return tensor.dtype == d.name; });
  if (dtype == kDtypes.end()) {
    return Bad(path, tensor.name, absl::StrCat("has unknown dtype '", tensor.dtype, "'"));
  }
  uint64_t bits = dtype->bits;
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits)) {
      return Bad(path, tensor.name, "has a shape whose size overflows");
    }
  }
  if (bits % 8 != 0) return Bad(path, tensor.name, "does not end on a byte");
  return bits / 8;
}

absl::Status ReadShape(absl::string_view path, const json& shape, SafetensorsTensor& tensor) {
  if (!shape.is_array() || shape.size() > kMaxRank) {
    return Bad(path, tensor.name,
               absl::StrCat("has a shape that is no list of at most ", kMaxRank));
  }
  for (const json& dim : shape) {
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > kMax) {
      return Bad(path, tensor.name, "has a shape with an entry that is no count");
    }
    tensor.shape.push_back(static_cast<int64_t>(dim.get<uint64_t>()));
  }
  return absl::OkStatus();
}

// One entry of the header. `data_begin` is the file offset of the data section.
absl::StatusOr<SafetensorsTensor> ReadEntry(absl::string_view path, const std::string& name,
                                            const json& entry, uint64_t data_begin,
                                            uint64_t data_bytes) {
  SafetensorsTensor tensor;
  tensor.name = name;
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets") || !entry["dtype"].is_string()) {
    return Bad(path, name, "is not described by dtype, shape and data_offsets");
  }
  tensor.dtype = entry["dtype"].get<std::string>();
  RALLY_RETURN_IF_ERROR(ReadShape(path, entry["shape"], tensor));
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return Bad(path, name, "has data_offsets that are no pair of byte positions");
  }
  const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end > data_bytes) {
    return Bad(path, name,
               absl::StrCat("has data_offsets [", begin, ", ", end, "] outside the ", data_bytes,
                            " bytes of data"));
  }
  RALLY_ASSIGN_OR_RETURN(tensor.bytes, TensorBytes(path, tensor));
  if (tensor.bytes != end - begin) {
    return Bad(path, name,
               absl::StrCat("needs ", tensor.bytes, " bytes for its shape and has ", end - begin));
  }
  tensor.offset = data_begin + begin;
  return tensor;
}

// No gap, no overlap, no bytes that nobody names.
absl::Status CheckTiling(absl::string_view path, const std::vector<SafetensorsTensor>& tensors,
                         uint64_t data_begin, uint64_t file_bytes) {
  uint64_t at = data_begin;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset != at) {
      return Bad(path, tensor.name,
                 tensor.offset < at ? "overlaps another tensor" : "follows a gap in the data");
    }
    at += tensor.bytes;
  }
  if (at != file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", file_bytes - at, " bytes of data belong to no tensor"));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ReadHeader(const InputFile& file, uint64_t& data_begin) {
  uint64_t header_bytes = 0;
  if (file.size_bytes() < kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": shorter than a header length"));
  }
  RALLY_RETURN_IF_ERROR(file.ReadAt(0, &header_bytes, kLengthBytes));
  if (header_bytes > std::min(kMaxHeaderBytes, file.size_bytes() - kLengthBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": header length ", header_bytes,
                                                   " exceeds the file or ", kMaxHeaderBytes));
  }
  std::string header(header_bytes, '\0');
  RALLY_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, header.data(), header.size()));
  data_begin = kLengthBytes + header_bytes;
  return ParseJsonObject(header, absl::StrCat(file.path(), ": header"), {.max_depth = 4});
}

}  // namespace

absl::StatusOr<SafetensorsFile> OpenSafetensors(const std::string& path) {
  SafetensorsFile result;
  RALLY_ASSIGN_OR_RETURN(result.file, InputFile::Open(path));
  uint64_t data_begin = 0;
  RALLY_ASSIGN_OR_RETURN(const json header, ReadHeader(*result.file, data_begin));
  const uint64_t data_bytes = result.file->size_bytes() - data_begin;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    RALLY_ASSIGN_OR_RETURN(SafetensorsTensor tensor,
                           ReadEntry(path, name, entry, data_begin, data_bytes));
    result.tensors.push_back(std::move(tensor));
  }
  std::sort(result.tensors.begin(), result.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
  });
  RALLY_RETURN_IF_ERROR(CheckTiling(path, result.tensors, data_begin, result.file->size_bytes()));
  return result;
}

}  // namespace rally
