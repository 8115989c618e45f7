// Activations, gated or not: one pass, a thread for 4 values where the shapes allow.
//
// Moves (2 or 1) F elements in and F out a row.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

constexpr int kThreads = 256;

template <typename From, typename To, int kPack>
__global__ void __launch_bounds__(kThreads) ActivationKernel(const ActivationArgs a) {
  LetNextStart();
  WaitForInputs();
  const auto r = static_cast<int32_t>(blockIdx.x);
  const auto c = static_cast<int32_t>(blockIdx.y * kThreads + threadIdx.x) * kPack;
  const int32_t n = a.out.cols;
  if (r >= *a.rows.count || c >= n) return;
  float values[kPack];
  LoadPack(RowOf<From>(a.x, r) + c, values);
#pragma unroll
  for (int i = 0; i < kPack; ++i) values[i] = Activate(a.kind, values[i]);
  if (a.gated != 0) {
    float up[kPack];
    LoadPack(RowOf<From>(a.x, r) + n + c, up);
#pragma unroll
    for (int i = 0; i < kPack; ++i) values[i] *= up[i];
  }
  StorePack(values, RowOf<To>(a.out, r) + c);
}

}  // namespace

void EnqueueActivation(Stream& stream, const ActivationArgs& a) {
  const bool wide = HoldsPacks(a.x, 4) && HoldsPacks(a.out, 4);
  WithType(a.x.dtype, [&](auto from) {
    WithType(a.out.dtype, [&](auto to) {
      WithPack(wide, [&](auto pack) {
        const dim3 grid(a.rows.max, CeilDiv(a.out.cols, kThreads * pack));
        LaunchKernel(stream, "activation", ActivationKernel<decltype(from), decltype(to), pack>,
                     {grid, kThreads}, a);
      });
    });
  });
}

}  // namespace rally
