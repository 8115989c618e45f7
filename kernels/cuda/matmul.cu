// out (m, n) = x W^T + bias, or out += ...: few rows by the kernel below, more by cuBLASLt.
//
// Few rows (m <= 4) cost what reading W costs: 2 or 4 n k bytes, once. A warp computes 2 or 4
// columns of out for all rows; its lanes run along the depth with 16-byte loads, several in flight.
// Where n alone would leave SMs idle, 2, 4 or 8 warps share a column's depth. x is staged in shared
// memory once a block, since thousands of warps asking L2 for the same few lines is what would set
// the speed (x of any depth goes through 32 KB, chunk by chunk). Sums are fp32; bias and
// residual are added as the result is stored. Rows beyond *rows are neither read nor written.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/lt_matmul.h"

namespace rally {
namespace {

constexpr int kMaxFewRows = 4;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kStagingBytes = 32 << 10;  // of x
// Columns of a warp: what it reads of x serves all of them.
template <int kRows>
constexpr int kColumns = kRows >= 4 ? 4 : 2;

struct FewRowsArgs {
  const int32_t* rows;
  int32_t max_rows;
  Matrix x;
  const void* weight;  // (n, k), rows padded with zeros to `weight_stride`
  int32_t n;
  int32_t k;
  int32_t weight_stride;
  const float* bias;
  int32_t accumulate;
  Matrix out;
  int32_t share;   // warps that share a column's depth
  int32_t x_wide;  // x may be read in 16-byte loads
};

// Depth of a chunk.
template <typename T, int kRows>
constexpr int kChunk = kStagingBytes / static_cast<int>(sizeof(T)) / kRows;

// x (count, [begin, begin + size)) to staged (kRows, size), the rest zero.
template <typename T, int kRows>
__device__ void StageX(const FewRowsArgs& a, int32_t count, int32_t begin, int32_t size,
                       T* staged) {
  constexpr int kPer = 16 / sizeof(T);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const T* x = RowOf<T>(a.x, r) + begin;
    if (a.x_wide != 0 && r < count) {
#pragma unroll 4
      for (int32_t i = static_cast<int32_t>(threadIdx.x) * kPer; i < size; i += kThreads * kPer) {
        *reinterpret_cast<uint4*>(staged + r * size + i) = *reinterpret_cast<const uint4*>(x + i);
      }
      continue;
    }
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < size; i += kThreads) {
      staged[r * size + i] = r < count && begin + i < a.k ? x[i] : FromFloat<T>(0);
    }
  }
}

// Adds this lane's share of the depth [begin, begin + size).
template <typename T, int kRows, int kOutputs>
__device__ void AddChunk(const FewRowsArgs& a, const T* const (&weight)[kOutputs], int32_t part,
                         int32_t begin, int32_t size, const T* staged,
                         float (&sums)[kOutputs][kRows]) {
  constexpr int kPer = 16 / sizeof(T);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t step = a.share * kWarp * kPer;
#pragma unroll 4
  for (int32_t i = (part * kWarp + lane) * kPer; i < size; i += step) {
    float w[kOutputs][kPer];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) LoadPack(weight[o] + begin + i, w[o]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float x[kPer];
      LoadPack(staged + r * size + i, x);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
        for (int j = 0; j < kPer; ++j) sums[o][r] = fmaf(w[o][j], x[j], sums[o][r]);
      }
    }
  }
}

template <typename Out>
__device__ void StoreOutput(const FewRowsArgs& a, int32_t row, int32_t column, float y) {
  if (a.bias != nullptr) y += a.bias[column];
  Out* out = RowOf<Out>(a.out, row) + column;
  *out = FromFloat<Out>(a.accumulate != 0 ? ToFloat(*out) + y : y);
}

template <typename T, typename Out, int kRows>
__global__ void __launch_bounds__(kThreads) FewRowsKernel(const FewRowsArgs a) {
  constexpr int kOutputs = kColumns<kRows>;
  __shared__ float partial[kWarps][kRows][kOutputs];
  auto* staged = reinterpret_cast<T*>(DynamicShared());
  LetNextStart();
  WaitForInputs();
  const int32_t count = min(*a.rows, a.max_rows);
  if (count <= 0) return;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const int32_t groups = kWarps / a.share;
  const int32_t first = (static_cast<int32_t>(blockIdx.x) * groups) * kOutputs;
  const T* weight[kOutputs];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    const int32_t column = min(first + warp / a.share * kOutputs + o, a.n - 1);
    weight[o] = static_cast<const T*>(a.weight) + int64_t{column} * a.weight_stride;
  }
  float sums[kOutputs][kRows] = {};
  for (int32_t begin = 0; begin < a.weight_stride; begin += kChunk<T, kRows>) {
    const int32_t size = min(kChunk<T, kRows>, a.weight_stride - begin);
    if (begin > 0) __syncthreads();
    StageX<T, kRows>(a, count, begin, size, staged);
    __syncthreads();
    AddChunk(a, weight, warp % a.share, begin, size, staged, sums);
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float sum = WarpSum(sums[o][r]);
      if (threadIdx.x % kWarp == 0) partial[warp][r][o] = sum;
    }
  }
  __syncthreads();
  // Neighbours in a row of out are written by neighbouring threads.
  const int32_t columns = groups * kOutputs;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < columns * kRows; i += kThreads) {
    const int32_t row = i / columns;
    const int32_t column = i % columns;
    if (row >= count || first + column >= a.n) continue;
    float y = 0;
    for (int32_t part = 0; part < a.share; ++part) {
      y += partial[column / kOutputs * a.share + part][row][column % kOutputs];
    }
    StoreOutput<Out>(a, row, first + column, y);
  }
}

// Enough warps for the SMs, as long as every lane still has a load to do.
int32_t ShareOf(int64_t warps, int64_t depth_bytes, int multiprocessors) {
  constexpr int kWarpsWanted = 16;  // of one SM
  const int64_t depth = depth_bytes / 16 / kWarp;
  int32_t share = 1;
  while (share < kWarps && 2 * share <= depth &&
         warps * share < int64_t{kWarpsWanted} * multiprocessors) {
    share *= 2;
  }
  return share;
}

template <typename T, typename Out, int kRows>
void LaunchFewRows(Stream& stream, FewRowsArgs a) {
  a.share = ShareOf(CeilDiv(a.n, kColumns<kRows>), int64_t{a.weight_stride} * int64_t{sizeof(T)},
                    OnCuda(stream).multiprocessors());
  const auto blocks = static_cast<unsigned>(CeilDiv(a.n, kWarps / a.share * kColumns<kRows>));
  const int32_t staged = std::min(a.weight_stride, kChunk<T, kRows>);
  LaunchKernel(stream, "matmul", FewRowsKernel<T, Out, kRows>,
               {blocks, kThreads, sizeof(T) * static_cast<size_t>(staged) * kRows}, a);
}

template <typename T, typename Out>
void EnqueueFewRows(Stream& stream, const FewRowsArgs& a) {
  if (a.max_rows <= 1) return LaunchFewRows<T, Out, 1>(stream, a);
  if (a.max_rows <= 2) return LaunchFewRows<T, Out, 2>(stream, a);
  LaunchFewRows<T, Out, kMaxFewRows>(stream, a);
}

template <typename T>
__global__ void CastKernel(const float* in, int32_t n, T* out) {
  LetNextStart();
  WaitForInputs();
  const auto i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = FromFloat<T>(in[i]);
}

// cuBLASLt takes the bias in the result's type only: a bf16 one is made in the scratch.
void EnqueueManyRows(Stream& stream, const MatmulArgs& a) {
  const CudaScratch& scratch = OnCuda(stream).scratch();
  if (a.bias == nullptr || a.out.dtype == DType::kF32) {
    return LtMatmul(OnCuda(stream), a, a.bias, scratch);
  }
  const size_t bytes = static_cast<size_t>(CeilDiv(a.out.cols, 128)) * 256;
  if (bytes > scratch.bytes / 2) {
    return OnCuda(stream).Fail(absl::ResourceExhaustedError("matmul: a bias beyond the scratch"));
  }
  const int block = BlockFor(a.out.cols);
  const auto blocks = static_cast<unsigned>(CeilDiv(a.out.cols, block));
  WithType(a.out.dtype, [&](auto type) {
    LaunchKernel(stream, "matmul", CastKernel<decltype(type)>, {blocks, block}, a.bias, a.out.cols,
                 static_cast<decltype(type)*>(scratch.data));
  });
  LtMatmul(OnCuda(stream), a, scratch.data,
           {static_cast<std::byte*>(scratch.data) + bytes, scratch.bytes - bytes});
}

// The bounds are measured (H200, bf16, whole steps). The kernel with 2 rows against cuBLASLt with a
// few more: GPT-2 452 to 538 us, an 8B model 5.56 to 5.65 ms; with 4 rows the kernel takes 6.8 ms.
// But cuBLASLt is slow where rows of out start unaligned: for GPT-2's 50257 logits of 4 rows the
// kernel saves 59 us.
bool AreFew(const MatmulArgs& a) {
  const bool aligned = a.out.stride % 4 == 0 && a.w->k % 8 == 0;
  return a.max_rows <= (aligned ? 2 : kMaxFewRows);
}

}  // namespace

void EnqueueMatmul(Stream& stream, const MatmulArgs& a) {
  if (a.max_rows <= 0) return;
  const auto& w = static_cast<const CudaWeight&>(*a.w);
  if (!AreFew(a)) return EnqueueManyRows(stream, a);
  const FewRowsArgs few = {.rows = a.rows,
                           .max_rows = a.max_rows,
                           .x = a.x,
                           .weight = w.buffer->data(),
                           .n = w.n,
                           .k = w.k,
                           .weight_stride = w.stride,
                           .bias = a.bias,
                           .accumulate = a.epilogue == Epilogue::kAccumulate ? 1 : 0,
                           .out = a.out,
                           .share = 1,
                           .x_wide = w.k == w.stride && HoldsPacks(a.x, 8) ? 1 : 0};
  WithType(w.dtype, [&](auto type) {
    if (a.out.dtype == DType::kF32) {
      EnqueueFewRows<decltype(type), float>(stream, few);
    } else {
      EnqueueFewRows<decltype(type), decltype(type)>(stream, few);
    }
  });
}

}  // namespace rally
