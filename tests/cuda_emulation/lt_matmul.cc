// Stands for kernels/cuda/lt_matmul.cc and cuBLASLt: plain loops over all args.max_rows rows.
#include "kernels/cuda/lt_matmul.h"

#include <vector>

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_weight.h"
#include "tests/cuda_emulation/emulated_stream.h"

namespace rally {
namespace {

std::vector<float> LoadRow(const Matrix& m, int64_t r) {
  std::vector<float> row(static_cast<size_t>(m.cols));
  for (int32_t c = 0; c < m.cols; ++c) {
    row[static_cast<size_t>(c)] = LoadAny(m.dtype, m.data, r * m.stride + c);
  }
  return row;
}

// In eight sums, which the compiler keeps in vectors.
double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += double{a[i + j]} * double{b[i + j]};
  }
  for (; i < a.size(); ++i) sums[0] += double{a[i]} * double{b[i]};
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

void Multiply(const MatmulArgs& args, const void* bias) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const Matrix weight = {w.buffer->data(), w.dtype, w.k, w.stride};
  const Matrix x_rows = {args.x.data, args.x.dtype, w.k, args.x.stride};
  std::vector<std::vector<float>> x;
  for (int32_t r = 0; r < args.max_rows; ++r) x.push_back(LoadRow(x_rows, r));
  for (int32_t c = 0; c < w.n; ++c) {
    const std::vector<float> column = LoadRow(weight, c);
    const double added = bias == nullptr ? 0 : LoadAny(args.out.dtype, bias, c);
    for (int32_t r = 0; r < args.max_rows; ++r) {
      const int64_t i = int64_t{r} * args.out.stride + c;
      double y = Dot(x[static_cast<size_t>(r)], column) + added;
      if (args.epilogue == Epilogue::kAccumulate) y += LoadAny(args.out.dtype, args.out.data, i);
      StoreAny(args.out.dtype, args.out.data, i, static_cast<float>(y));
    }
  }
}

}  // namespace

void LtMatmul(CudaStream& stream, const MatmulArgs& args, const void* bias, const CudaScratch&) {
  emulation::Emulated(stream).Enqueue([args, bias] { Multiply(args, bias); });
}

}  // namespace rally
