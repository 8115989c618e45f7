// Element types, and a view of a dense row-major matrix.
#ifndef RALLY_KERNELS_TENSOR_H_
#define RALLY_KERNELS_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rally {

enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr size_t DTypeBytes(DType t) { return t == DType::kF32 ? 4 : 2; }
constexpr std::string_view DTypeName(DType t) {
  return t == DType::kF32 ? "fp32" : t == DType::kBF16 ? "bf16" : "fp16";
}

// Rows x cols elements at `data`; row r starts at element r * stride.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int32_t cols = 0;
  int32_t stride = 0;

  template <typename T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
};

}  // namespace rally

#endif  // RALLY_KERNELS_TENSOR_H_
