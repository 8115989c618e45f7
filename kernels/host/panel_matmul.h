// Matrix products with few rows, where reading the weight is all the work (AVX-512).
//
// Weight layout, for W (n, k), y = x W^T: panels of 64 outputs, each with its whole depth in one
// piece, front to back as a product reads it:
//   bf16  [n / 64][k / 2][64][2]   pairs of k lie together, as VDPBF16PS takes them
//   fp32  [n / 64][k][64]
// The depth is padded to 32 (bf16) or 16 (fp32), the width to 64, with zeros. To oneDNN these are
// the formats BA16a64b2a and BA16a64b of a (k, n) matrix, so one copy of a weight serves both.
#ifndef RALLY_KERNELS_HOST_PANEL_MATMUL_H_
#define RALLY_KERNELS_HOST_PANEL_MATMUL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace rally {

inline constexpr int32_t kPanelCols = 64;

constexpr int64_t PanelDepth(int64_t k, DType dtype) {
  const int64_t unit = dtype == DType::kBF16 ? 32 : 16;
  return (k + unit - 1) / unit * unit;
}
constexpr int64_t PanelCount(int64_t n) { return (n + kPanelCols - 1) / kPanelCols; }
// Elements of the whole weight.
constexpr int64_t PanelElements(int64_t n, int64_t k, DType dtype) {
  return PanelCount(n) * kPanelCols * PanelDepth(k, dtype);
}

// Writes one panel from `count` <= 64 rows of W (count, k). `panel` is zero before.
void PackPanel(const float* rows, int32_t count, int32_t k, DType dtype, void* panel);

struct PanelMatmulArgs {
  int32_t rows = 0;
  int32_t n = 0;
  int32_t k = 0;
  Matrix x;  // (rows, k), fp32 or bf16: the weight's type
  const void* panels = nullptr;
  const float* bias = nullptr;  // (n) or nullptr
  bool accumulate = false;      // out += ...; out is fp32 then
  Matrix out;                   // (rows, n), fp32 or bf16
};

// Needs HostHasBf16() for bf16 and HostHasAvx512() for fp32; k is even for bf16.
void PanelMatmul(const PanelMatmulArgs& a);

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_PANEL_MATMUL_H_
