#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/row_sources.h"

namespace rally {
namespace {

class FileRowSource : public RowSource {
 public:
  explicit FileRowSource(FileMatrix matrix) : matrix_(std::move(matrix)) {}
  int64_t rows() const override { return matrix_.rows; }
  int64_t cols() const override { return matrix_.cols; }

  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    if (first < 0 || count < 0 || first > rows() || count > rows() - first) {
      return absl::OutOfRangeError(
          absl::StrCat(Where(), "rows ", first, " to ", first, " + ", count, " of ", rows()));
    }
    // The stored form goes through a buffer of about a megabyte.
    const int64_t chunk_rows =
        std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, matrix_.row_bytes));
    std::vector<std::byte> stored(
        static_cast<size_t>(std::min(chunk_rows, count) * matrix_.row_bytes));
    for (const int64_t end = first + count; first < end;) {
      const int64_t n = std::min(chunk_rows, end - first);
      const auto bytes = static_cast<size_t>(n * matrix_.row_bytes);
      const uint64_t offset = matrix_.offset + static_cast<uint64_t>(first * matrix_.row_bytes);
      RALLY_RETURN_IF_ERROR(matrix_.file->ReadAt(offset, stored.data(), bytes));
      matrix_.decode(stored.data(), n * cols(), out);
      if (!std::all_of(out, out + n * cols(), [](float v) { return std::isfinite(v); })) {
        return absl::DataLossError(absl::StrCat(Where(), "holds NaN or infinity"));
      }
      out += n * cols();
      first += n;
    }
    return absl::OkStatus();
  }

 private:
  std::string Where() const {
    return absl::StrCat(matrix_.file->path(), ": tensor '", matrix_.name, "' ");
  }

  const FileMatrix matrix_;
};

// IEEE 754 binary16.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

uint16_t LoadU16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

void DecodeF32(const std::byte* stored, int64_t count, float* out) {
  std::memcpy(out, stored, static_cast<size_t>(count) * sizeof(float));
}

void DecodeF16(const std::byte* stored, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = HalfToFloat(LoadU16(stored + 2 * i));
}

void DecodeBF16(const std::byte* stored, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(uint32_t{LoadU16(stored + 2 * i)} << 16);
  }
}

std::unique_ptr<RowSource> FileRows(FileMatrix matrix) {
  return std::make_unique<FileRowSource>(std::move(matrix));
}

}  // namespace rally
