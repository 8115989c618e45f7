// Rotary positions, in place: a block a token. The angles are the same for every head, so each sine
// and cosine is computed once a token and kept in shared memory.
//
// Reads and writes heads * rotary_dim values a token.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/rotation.cuh"

namespace rally {
namespace {

constexpr int kMaxPairs = 128;  // heads have at most 256 values
constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) RopeKernel(const RopeArgs a) {
  LetNextStart();
  WaitForInputs();
  __shared__ float2 turns[kMaxPairs];
  const auto t = static_cast<int32_t>(blockIdx.x);
  if (t >= *a.rows.count) return;
  const int32_t pairs = a.rotary_dim / 2;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < pairs; i += static_cast<int32_t>(blockDim.x)) {
    turns[i] = RotationOf(a.tokens[t].position, a.inv_freq[i], a.scale);
  }
  __syncthreads();
  T* row = RowOf<T>(a.x, t) + a.first_col;
  for (int32_t i = thread; i < a.heads * pairs; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t pair = i % pairs;
    const float2 turn = turns[pair];
    T* x = row + int64_t{i / pairs} * a.head_dim + pair;
    const float x0 = ToFloat(x[0]);
    const float y0 = ToFloat(x[pairs]);
    x[0] = FromFloat<T>(x0 * turn.x - y0 * turn.y);
    x[pairs] = FromFloat<T>(y0 * turn.x + x0 * turn.y);
  }
}

}  // namespace

void EnqueueRope(Stream& stream, const RopeArgs& a) {
  WithType(a.x.dtype, [&](auto type) {
    LaunchKernel(stream, "rope", RopeKernel<decltype(type)>,
                 {a.rows.max, BlockFor(a.heads * (a.rotary_dim / 2), kThreads)}, a);
  });
}

}  // namespace rally
