// Brings the input of a product into shared memory, in the compute type: the residual stream
// normed, the attended values, or the activated ones. Every block reads all of it, once.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_INPUT_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_INPUT_CUH_

#include "kernels/cuda/decode_stack.cuh"

namespace rally {

// How the warps share the rows: the same number of warps a row.
struct RowShare {
  __device__ explicit RowShare(int32_t max_rows) {
    const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
    const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
    warps = max_rows <= 1 ? kStackWarps : max_rows <= 2 ? 4 : max_rows <= 4 ? 2 : 1;
    row = warp / warps;
    first = (warp % warps * kWarp + lane) * 4;
    step = warps * kWarp * 4;
  }
  int32_t warps;  // of a row
  int32_t row;
  int32_t first;  // column of this thread
  int32_t step;
};

// Sum over the row's warps, in the same order each time. `scratch` holds a value a warp.
__device__ inline float RowSum(float x, const RowShare& share, float* scratch) {
  x = WarpSum(x);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  SyncStack();
  float sum = 0;
  for (int32_t w = 0; w < share.warps; ++w) sum += scratch[share.row * share.warps + w];
  return sum;
}

// Four values of row `token` of the residual stream; before the first layer they are the embedding,
// which the first block also writes down for the others.
template <typename T>
__device__ void LoadResidual(const StackKernelArgs& a, bool embed, int32_t token, int32_t column,
                             float (&x)[4]) {
  float* residual = RowOf<float>(a.residual, token) + column;
  if (!embed) return LoadFresh(residual, x);
  const TokenMeta meta = a.tokens[token];
  LoadPack(RowOf<T>(a.token_embedding, meta.id) + column, x);
  if (a.position_embedding.data != nullptr) {
    float added[4];
    LoadPack(RowOf<T>(a.position_embedding, meta.position) + column, added);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] += added[i];
  }
  if (blockIdx.x == 0) StorePack(x, residual);
}

// RMSNorm, or with a bias LayerNorm. The values wait in shared memory as fp32, each thread's own,
// while the sums are made: mean first, then squares, as norm.cu does.
template <typename T>
__device__ void StageNormed(const StackKernelArgs& a, const StackShared& s,
                            const StackLinear& linear, int32_t rows, bool embed) {
  const RowShare share(a.max_rows);
  const bool valid = share.row < rows;
  const int32_t width = a.width;
  const bool sampled = linear.output == StackOutput::kLogits;
  const int32_t row_bytes = PaddedRowBytes(width);
  auto* values = reinterpret_cast<float*>(s.input + a.max_rows * row_bytes) + share.row * width;
  float x[4];
  float sum = 0;
  if (valid) {
    const int32_t token = sampled ? a.record.samples[share.row].token_index : share.row;
    for (int32_t c = share.first; c < width; c += share.step) {
      LoadResidual<T>(a, embed, token, c, x);
      StorePack(x, values + c);
      sum += x[0] + x[1] + x[2] + x[3];
    }
  }
  const auto count = static_cast<float>(width);
  const float mean = linear.norm_bias == nullptr ? 0.0f : RowSum(sum, share, s.scratch) / count;
  float squares = 0;
  if (valid) {
    for (int32_t c = share.first; c < width; c += share.step) {
      LoadPack(values + c, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) squares += (x[i] - mean) * (x[i] - mean);
    }
  }
  const float factor =
      1.0f / sqrtf(RowSum(squares, share, s.scratch + kStackWarps) / count + a.norm_epsilon);
  if (!valid) return;
  auto* out = reinterpret_cast<T*>(s.input + share.row * row_bytes);
  for (int32_t c = share.first; c < width; c += share.step) {
    float weight[4];
    LoadPack(values + c, x);
    LoadPack(linear.norm_weight + c, weight);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = (x[i] - mean) * factor * weight[i];
    if (linear.norm_bias != nullptr) {
      float bias[4];
      LoadPack(linear.norm_bias + c, bias);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] += bias[i];
    }
    StorePack(x, out + c);
  }
}

template <typename T>
__device__ void StageRows(const StackShared& s, const Matrix& x, int32_t k, int32_t rows) {
  const int32_t packs = k / 8;
  const int32_t row_bytes = PaddedRowBytes(k);
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows * packs; i += kStackThreads) {
    const int32_t row = i / packs;
    const int32_t pack = i - row * packs;
    *reinterpret_cast<uint4*>(s.input + row * row_bytes + pack * 16) =
        __ldcg(reinterpret_cast<const uint4*>(RowOf<T>(x, row)) + pack);
  }
}

// Where the shares of (row, head) leave their results: `shares` pairs (maximum, sum), and
// `shares` times head_dim outputs that are not yet divided.
struct StackPartials {
  __device__ StackPartials(const StackKernelArgs& a, int32_t max_shares, int32_t row,
                           int32_t head) {
    const int64_t index = (int64_t{row} * a.q_heads + head) * max_shares;
    outputs = a.partials + index * a.head_dim;
    const int64_t all = int64_t{a.max_rows} * a.q_heads * max_shares;
    sums = reinterpret_cast<float2*>(a.partials + all * a.head_dim) + index;
  }
  float* outputs;
  float2* sums;
};

// The attended values, merged from the shares in their order.
template <typename T>
__device__ void StageMerged(const StackKernelArgs& a, const StackShared& s, int32_t rows,
                            int32_t shares) {
  const int32_t quads = a.head_dim / 4;
  const int32_t row_quads = a.q_heads * quads;
  const int32_t row_bytes = PaddedRowBytes(a.q_heads * a.head_dim);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows * row_quads; i += kStackThreads) {
    const int32_t row = i / row_quads;
    const int32_t in_row = i - row * row_quads;
    const int32_t head = in_row / quads;
    const int32_t d = (in_row - head * quads) * 4;
    const StackPartials partials(a, shares, row, head);
    float max = -INFINITY;
    for (int32_t p = 0; p < shares; ++p) max = fmaxf(max, __ldcg(partials.sums + p).x);
    float sum = 0;
    float out[4] = {};
#pragma unroll 4
    for (int32_t p = 0; p < shares; ++p) {
      const float2 stats = __ldcg(partials.sums + p);
      const float weight = expf(stats.x - max);
      float x[4];
      LoadFresh(partials.outputs + p * a.head_dim + d, x);
      sum += weight * stats.y;
#pragma unroll
      for (int j = 0; j < 4; ++j) out[j] += weight * x[j];
    }
#pragma unroll
    for (float& value : out) value /= sum;
    StorePack(out, reinterpret_cast<T*>(s.input + row * row_bytes) + head * a.head_dim + d);
  }
}

// The caller synchronises before the rows are used.
template <typename T>
__device__ void StageInput(const StackKernelArgs& a, const StackShared& s,
                           const StackLinear& linear, int32_t rows, int32_t shares, bool embed) {
  switch (linear.input) {
    case StackInput::kResidualNormed:
      return StageNormed<T>(a, s, linear, rows, embed);
    case StackInput::kAttended:
      if (shares > 1) return StageMerged<T>(a, s, rows, shares);
      return StageRows<T>(s, a.attended, linear.k, rows);
    case StackInput::kActivated:
      return StageRows<T>(s, a.activated, linear.k, rows);
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_INPUT_CUH_
