// What the kernels share: element types, vector loads and reductions.
#ifndef RALLY_KERNELS_CUDA_COMMON_CUH_
#define RALLY_KERNELS_CUDA_COMMON_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/ops.h"

namespace rally {

inline constexpr int kWarp = 32;
inline constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // of a block, on Hopper
inline constexpr unsigned kFullWarp = 0xffffffffu;

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float ToFloat(__half x) { return __half2float(x); }

// Rounds to nearest even.
template <typename T>
__device__ inline T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}

// kCount neighbours in one load or store; the address is a multiple of their size.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <int kCount, typename T>
__device__ inline void LoadPack(const T* p, float (&out)[kCount]) {
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(p);
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] = ToFloat(pack.values[i]);
}

template <int kCount, typename T>
__device__ inline void StorePack(const float (&values)[kCount], T* p) {
  Pack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.values[i] = FromFloat<T>(values[i]);
  *reinterpret_cast<Pack<T, kCount>*>(p) = pack;
}

// Row r of a matrix of T.
template <typename T>
__device__ inline T* RowOf(const Matrix& m, int64_t r) {
  return static_cast<T*>(m.data) + r * m.stride;
}

// Element `i` of whatever type, for values that are read or written only a few times.
__device__ inline float LoadAny(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(data)[i];
    case DType::kBF16:
      return ToFloat(static_cast<const __nv_bfloat16*>(data)[i]);
    case DType::kF16:
      return ToFloat(static_cast<const __half*>(data)[i]);
  }
  return 0;
}

__device__ inline void StoreAny(DType dtype, void* data, int64_t i, float value) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(data)[i] = value;
      return;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[i] = FromFloat<__nv_bfloat16>(value);
      return;
    case DType::kF16:
      static_cast<__half*>(data)[i] = FromFloat<__half>(value);
      return;
  }
}

template <typename T>
__device__ inline T WarpSum(T x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

// Sum over the block, in every thread and in the same order each time. `scratch` holds 32 values;
// blocks are whole warps.
template <typename T>
__device__ inline T BlockSum(T x, T* scratch) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  x = WarpSum(x);
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = WarpSum(lane < static_cast<int>(blockDim.x) / kWarp ? scratch[lane] : T{0});
  __syncthreads();
  return x;
}

template <typename Fn>
void WithType(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kBF16:
      return fn(__nv_bfloat16{});
    case DType::kF16:
      return fn(__half{});
  }
}

// Rows of `m` may be read and written in packs of `count` elements.
inline bool HoldsPacks(const Matrix& m, int count) {
  const size_t bytes = DTypeBytes(m.dtype) * static_cast<size_t>(count);
  return m.data == nullptr || (m.cols % count == 0 && m.stride % count == 0 &&
                               reinterpret_cast<uintptr_t>(m.data) % bytes == 0);
}

// Calls fn(integral constant) with packs of 4 elements where `wide`, else of one.
template <typename Fn>
void WithPack(bool wide, const Fn& fn) {
  if (wide) {
    fn(std::integral_constant<int, 4>{});
  } else {
    fn(std::integral_constant<int, 1>{});
  }
}

// A block that covers `items` with one thread each, in whole warps, within limits.
inline int BlockFor(int64_t items, int most = 256) {
  return static_cast<int>(std::clamp<int64_t>((items + kWarp - 1) / kWarp * kWarp, kWarp, most));
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_COMMON_CUH_
