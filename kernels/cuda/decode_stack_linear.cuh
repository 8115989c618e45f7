// A matrix product of the stack: few rows of x, the block's tiles of W, on the tensor cores.
//
// x is the 16-row operand (rows beyond its 8 are zeros) and 8 rows of W are the columns. The order
// of the depth is free as long as both operands agree, so a lane loads 16 bytes of a row, 8
// neighbouring elements, and feeds two products with them: no shuffles, no ldmatrix. The warps
// share the depth of a tile; their sums meet in shared memory, four tiles at a time.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_LINEAR_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_LINEAR_CUH_

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/decode_stack_input.cuh"
#include "kernels/cuda/decode_stack_ring.cuh"

namespace rally {

// What a thread finishes of a group of tiles: row `warp`, tile lane / 8, row lane % 8 of that tile.
struct StackElement {
  bool valid = false;
  int32_t column = 0;  // of the result
  float bias = 0;
  float before = 0;  // the residual that is added to
};

__device__ inline StackElement LoadElement(const StackKernelArgs& a, const StackLinear& linear,
                                           int32_t group_tile, int32_t rows) {
  const auto row = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t tile = group_tile + lane / kTileRows * static_cast<int32_t>(gridDim.x);
  const int32_t r = lane % kTileRows;
  const bool gated = linear.output == StackOutput::kActivateGated;
  StackElement e;
  e.column = gated ? tile * (kTileRows / 2) + r % (kTileRows / 2) : tile * kTileRows + r;
  e.valid = row < rows && tile < linear.tiles && e.column < linear.n;
  if (!e.valid) return e;
  if (linear.bias != nullptr) e.bias = linear.bias[RowOfTile(linear, tile, r)];
  if (linear.output == StackOutput::kAccumulate) {
    e.before = __ldcg(RowOf<float>(a.residual, row) + e.column);
  }
  return e;
}

// Adds this warp's share of a stage. The sums of two products that do not wait for each other.
template <typename T>
__device__ void MultiplyStage(const unsigned char* weights, int32_t weight_bytes,
                              const unsigned char* input, int32_t input_bytes, int32_t depth,
                              int32_t rows, float (&sums)[2][4]) {
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t row = lane / 4;
  const unsigned char* w = weights + row * weight_bytes + lane % 4 * 16;
  const unsigned char* x = input + row * input_bytes + lane % 4 * 16;
#pragma unroll 4
  for (int32_t at = warp * kDepthStep; at < depth; at += kStackWarps * kDepthStep) {
    const uint4 wv = *reinterpret_cast<const uint4*>(w + at * 2);
    uint4 xv = {0, 0, 0, 0};
    if (row < rows) xv = *reinterpret_cast<const uint4*>(x + at * 2);
    MultiplyTile<T>(sums[0], {xv.x, 0, xv.y, 0}, {wv.x, wv.y});
    MultiplyTile<T>(sums[1], {xv.z, 0, xv.w, 0}, {wv.z, wv.w});
  }
}

// The sums of up to kTilesAtOnce tiles from `group_tile` on, to `partial`.
template <typename T>
__device__ void MultiplyGroup(const StackKernelArgs& a, const StackShared& s,
                              const StackLinear& linear, int32_t group_tile, int32_t rows,
                              RingCursor& at, float* partial) {
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t weight_bytes = PaddedRowBytes(a.stage_depth);
  const int32_t input_bytes = PaddedRowBytes(linear.k);
  for (int32_t j = 0; j < kTilesAtOnce; ++j) {
    if (group_tile + j * static_cast<int32_t>(gridDim.x) >= linear.tiles) return;
    float sums[2][4] = {};
    for (int32_t depth = 0; depth < linear.k; depth += a.stage_depth) {
      WaitBarrier(&s.full[at.stage], at.round);
      MultiplyStage<T>(s.ring + at.stage * StageBytes(a.stage_depth), weight_bytes,
                       s.input + depth * static_cast<int32_t>(sizeof(T)), input_bytes,
                       min(a.stage_depth, linear.k - depth), rows, sums);
      __syncwarp();
      if (lane == 0) Arrive(&s.empty[at.stage]);
      at.Next(a.stages);
    }
    if (lane / 4 >= a.max_rows) continue;
    float2* out = reinterpret_cast<float2*>(partial + (warp * a.max_rows + lane / 4) * kPartialRow +
                                            j * kTileRows + lane % 4 * 2);
    *out = {sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]};
  }
}

template <typename T>
__device__ void StoreElement(const StackKernelArgs& a, const StackLinear& linear,
                             const StackElement& e, float y) {
  const auto row = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto r = static_cast<int32_t>(threadIdx.x) % kTileRows;
  const float up = __shfl_down_sync(kFullWarp, y, kTileRows / 2);
  if (!e.valid) return;
  switch (linear.output) {
    case StackOutput::kStore:
      RowOf<T>(a.qkv, row)[e.column] = FromFloat<T>(y);
      return;
    case StackOutput::kAccumulate:
      RowOf<float>(a.residual, row)[e.column] = e.before + y;
      return;
    case StackOutput::kActivate:
      RowOf<T>(a.activated, row)[e.column] = FromFloat<T>(Activate(a.activation, y));
      return;
    case StackOutput::kActivateGated:
      if (r >= kTileRows / 2) return;
      RowOf<T>(a.activated, row)[e.column] = FromFloat<T>(Activate(a.activation, y) * up);
      return;
    case StackOutput::kLogits:
      RowOf<float>(a.logits, row)[e.column] = y;
      return;
  }
}

// Adds the warps' sums in their order.
template <typename T>
__device__ void FinishGroup(const StackKernelArgs& a, const StackLinear& linear,
                            const StackElement& e, const float* partial) {
  const auto row = static_cast<int32_t>(threadIdx.x) / kWarp;
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  if (row >= a.max_rows) return;
  float y = 0;
#pragma unroll
  for (int w = 0; w < kStackWarps; ++w) {
    y += partial[(w * a.max_rows + row) * kPartialRow + lane];
  }
  StoreElement<T>(a, linear, e, y + e.bias);
}

template <typename T>
__device__ void RunLinear(const StackKernelArgs& a, const StackShared& s, const StackLinear& linear,
                          int32_t rows, int32_t shares, bool embed, RingCursor& at) {
  const auto grid = static_cast<int32_t>(gridDim.x);
  int32_t tile = FirstTile(linear);
  // The first block stages the embedding whatever it computes: it writes it down.
  if (tile >= linear.tiles && !(embed && blockIdx.x == 0)) return;
  StackElement element = LoadElement(a, linear, tile, rows);
  StageInput<T>(a, s, linear, rows, shares, embed);
  SyncStack();
  float* partial = s.partial;
  float* other = s.partial + PartialFloats(a.max_rows);
  for (; tile < linear.tiles; tile += kTilesAtOnce * grid) {
    MultiplyGroup<T>(a, s, linear, tile, rows, at, partial);
    SyncStack();
    FinishGroup<T>(a, linear, element, partial);
    element = LoadElement(a, linear, tile + kTilesAtOnce * grid, rows);
    float* const used = partial;
    partial = other;
    other = used;
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_LINEAR_CUH_
