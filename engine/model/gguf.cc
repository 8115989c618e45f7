#include "engine/model/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/model/gguf_reader.h"

namespace rally {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxMetadata = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;

absl::Status Bad(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}
absl::Status Bad(absl::string_view path, absl::string_view tensor, absl::string_view what) {
  return Bad(path, absl::StrCat("tensor '", tensor, "' ", what));
}

struct Counts {
  uint64_t tensors = 0;
  uint64_t metadata = 0;
};

absl::StatusOr<Counts> ReadHead(GgufReader& reader, absl::string_view path) {
  const auto magic = reader.Scalar<uint32_t>();
  const auto version = reader.Scalar<uint32_t>();
  Counts counts;
  counts.tensors = reader.Scalar<uint64_t>();
  counts.metadata = reader.Scalar<uint64_t>();
  RALLY_RETURN_IF_ERROR(reader.status());
  if (magic != kMagic) return Bad(path, "not a GGUF file");
  if (version != 2 && version != 3) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": GGUF version ", version, ", 2 and 3 are supported"));
  }
  if (counts.tensors > kMaxTensors || counts.metadata > kMaxMetadata) {
    return Bad(path, absl::StrCat(counts.tensors, " tensors and ", counts.metadata,
                                  " metadata values are more than a model has"));
  }
  return counts;
}

absl::StatusOr<nlohmann::json> ReadMetadata(GgufReader& reader, absl::string_view path,
                                            uint64_t count) {
  nlohmann::json metadata = nlohmann::json::object();
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = reader.String();
    nlohmann::json value = reader.Value(reader.Scalar<uint32_t>());
    RALLY_RETURN_IF_ERROR(reader.status());
    if (metadata.contains(key)) return Bad(path, absl::StrCat("key '", key, "' appears twice"));
    metadata[key] = std::move(value);
  }
  return metadata;
}

absl::StatusOr<uint64_t> Alignment(const nlohmann::json& metadata, absl::string_view path) {
  const auto it = metadata.find("general.alignment");
  if (it == metadata.end()) return kDefaultAlignment;
  const uint64_t alignment = it->is_number_unsigned() ? it->get<uint64_t>() : 0;
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return Bad(path, "general.alignment is not a power of two");
  }
  return alignment;
}

// Bytes of a tensor; the file's order of dimensions, so the first is the length of a row.
absl::StatusOr<uint64_t> TensorBytes(absl::string_view path, const GgufTensor& tensor) {
  const uint64_t row = tensor.shape.empty() ? 1 : static_cast<uint64_t>(tensor.shape.back());
  const auto block_elements = static_cast<uint64_t>(tensor.type->block_elements);
  if (row % block_elements != 0) {
    return Bad(
        path, tensor.name,
        absl::StrCat("has rows of ", row, ", no multiple of ", tensor.type->name, "'s block"));
  }
  uint64_t bytes = row / block_elements;
  bool overflow =
      __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.type->block_bytes), &bytes);
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[i]), &bytes);
  }
  if (overflow) return Bad(path, tensor.name, "has a shape whose size overflows");
  return bytes;
}

// A tensor info; its offset is still relative to the data section.
absl::StatusOr<GgufTensor> ReadTensorInfo(GgufReader& reader, absl::string_view path) {
  GgufTensor tensor;
  tensor.name = reader.String();
  const auto rank = reader.Scalar<uint32_t>();
  RALLY_RETURN_IF_ERROR(reader.status());
  if (rank > kMaxRank) return Bad(path, tensor.name, absl::StrCat("has ", rank, " dimensions"));
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = reader.Scalar<uint64_t>();
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Bad(path, tensor.name, "has a dimension beyond 2^63");
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(dim));
  }
  const auto type = reader.Scalar<uint32_t>();
  tensor.offset = reader.Scalar<uint64_t>();
  RALLY_RETURN_IF_ERROR(reader.status());
  tensor.type = FindGgufType(type);
  if (tensor.type == nullptr) {
    return Bad(path, tensor.name, absl::StrCat("has unknown type ", type));
  }
  RALLY_ASSIGN_OR_RETURN(tensor.bytes, TensorBytes(path, tensor));
  return tensor;
}

// Makes the offsets absolute and checks that the tensors lie in the file, aligned and apart.
absl::Status PlaceTensors(const InputFile& file, uint64_t header_end, uint64_t alignment,
                          std::vector<GgufTensor>& tensors) {
  const uint64_t data_begin = (header_end + alignment - 1) & ~(alignment - 1);
  const uint64_t data_bytes = data_begin > file.size_bytes() ? 0 : file.size_bytes() - data_begin;
  for (GgufTensor& tensor : tensors) {
    if (tensor.offset % alignment != 0) {
      return Bad(file.path(), tensor.name, "starts at an unaligned offset");
    }
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      return Bad(file.path(), tensor.name,
                 absl::StrCat("needs ", tensor.bytes, " bytes at ", tensor.offset, " of the ",
                              data_bytes, " bytes of data"));
    }
    tensor.offset += data_begin;
  }
  std::sort(tensors.begin(), tensors.end(), [](const GgufTensor& a, const GgufTensor& b) {
    return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
  });
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].offset < tensors[i - 1].offset + tensors[i - 1].bytes) {
      return Bad(file.path(), tensors[i].name,
                 absl::StrCat("overlaps tensor '", tensors[i - 1].name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufFile> OpenGguf(const std::string& path) {
  GgufFile result;
  RALLY_ASSIGN_OR_RETURN(result.file, InputFile::Open(path));
  GgufReader reader(*result.file);
  RALLY_ASSIGN_OR_RETURN(const Counts counts, ReadHead(reader, path));
  RALLY_ASSIGN_OR_RETURN(result.metadata, ReadMetadata(reader, path, counts.metadata));
  std::set<std::string> names;
  for (uint64_t i = 0; i < counts.tensors; ++i) {
    RALLY_ASSIGN_OR_RETURN(GgufTensor tensor, ReadTensorInfo(reader, path));
    if (!names.insert(tensor.name).second) return Bad(path, tensor.name, "is stored twice");
    result.tensors.push_back(std::move(tensor));
  }
  RALLY_ASSIGN_OR_RETURN(const uint64_t alignment, Alignment(result.metadata, path));
  RALLY_RETURN_IF_ERROR(PlaceTensors(*result.file, reader.position(), alignment, result.tensors));
  return result;
}

}  // namespace rally
