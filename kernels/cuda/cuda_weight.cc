#include "kernels/cuda/cuda_weight.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/host/bfloat16.h"

namespace rally {
namespace {

constexpr int64_t kStagingBytes = int64_t{16} << 20;
constexpr int32_t kPadElements = 8;  // 16 bytes of the two-byte types

absl::Status CheckSource(const RowSource& source) {
  constexpr int64_t kMaxSide = std::numeric_limits<int32_t>::max() - kPadElements;
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  const int64_t rows = source.rows();
  const int64_t cols = source.cols();
  if (rows < 1 || cols < 1 || rows > kMaxSide || cols > kMaxSide || rows > kMaxElements / cols) {
    return absl::InvalidArgumentError(absl::StrCat("parameter of ", rows, " x ", cols, " values"));
  }
  return absl::OkStatus();
}

void ConvertRow(const float* in, int64_t count, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, in, sizeof(float) * static_cast<size_t>(count));
      return;
    case DType::kBF16: {
      auto* values = reinterpret_cast<BFloat16*>(out);
      for (int64_t i = 0; i < count; ++i) values[i] = FromFloat<BFloat16>(in[i]);
      return;
    }
    case DType::kF16: {
      auto* values = reinterpret_cast<__half*>(out);
      for (int64_t i = 0; i < count; ++i) values[i] = __float2half_rn(in[i]);
      return;
    }
  }
}

// Converts on the host and copies through pinned memory, some rows at a time, so that a model may
// be larger than the host's memory. Row r goes to element r * stride; what lies between rows is
// zero.
absl::Status CopyRows(Device& device, DType dtype, const RowSource& source, int64_t stride,
                      std::byte* dst) {
  const int64_t cols = source.cols();
  const int64_t row_bytes = stride * static_cast<int64_t>(DTypeBytes(dtype));
  const int64_t at_once = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, source.rows());
  std::vector<float> values(static_cast<size_t>(at_once * cols));
  auto staging = device.Allocate(Space::kPinnedHost, static_cast<size_t>(at_once * row_bytes));
  if (!staging.ok()) return staging.status();
  const auto stream = device.NewStream();
  if (!stream.ok()) return stream.status();
  for (int64_t first = 0; first < source.rows(); first += at_once) {
    const int64_t count = std::min(at_once, source.rows() - first);
    if (absl::Status s = source.Read(first, count, values.data()); !s.ok()) return s;
    std::byte* rows = (*staging)->data();
    for (int64_t r = 0; r < count; ++r) {
      ConvertRow(values.data() + r * cols, cols, dtype, rows + r * row_bytes);
    }
    (*stream)->Copy(dst + first * row_bytes, rows, static_cast<size_t>(count * row_bytes));
    if (absl::Status s = device.Sync(**stream); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Weight>> MakeCudaWeight(Device& device, DType dtype,
                                                       const RowSource& source) {
  if (absl::Status status = CheckSource(source); !status.ok()) return status;
  auto weight = std::make_unique<CudaWeight>();
  weight->n = static_cast<int32_t>(source.rows());
  weight->k = static_cast<int32_t>(source.cols());
  weight->dtype = dtype;
  weight->stride = (weight->k + kPadElements - 1) / kPadElements * kPadElements;
  const int64_t elements = int64_t{weight->n} * weight->stride;
  auto buffer = device.Allocate(Space::kDevice, static_cast<size_t>(elements) * DTypeBytes(dtype));
  if (!buffer.ok()) return buffer.status();
  weight->buffer = *std::move(buffer);
  absl::Status status = CopyRows(device, dtype, source, weight->stride, weight->buffer->data());
  if (!status.ok()) return status;
  return weight;
}

absl::Status UploadToCuda(Device& device, DType dtype, const RowSource& source, void* dst) {
  if (absl::Status status = CheckSource(source); !status.ok()) return status;
  return CopyRows(device, dtype, source, source.cols(), static_cast<std::byte*>(dst));
}

}  // namespace rally
