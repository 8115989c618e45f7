// The weights of the whole stack on their way through a ring in shared memory.
//
// Which weights a block needs, and in which order, does not depend on what it computes. So one warp
// keeps the copy engine busy with the block's tiles, across products and layers, as far ahead as
// the ring is large (about 190 KB a block, 25 MB on 132), while the other warps wait for each
// other.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_RING_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_RING_CUH_

#include "kernels/cuda/decode_stack.cuh"
#include "kernels/cuda/weight_rows.cuh"

namespace rally {

// A place in the ring and the parity of the round that it is in.
struct RingCursor {
  __device__ void Next(int32_t stages) {
    if (++stage < stages) return;
    stage = 0;
    round ^= 1;
  }
  int32_t stage = 0;
  uint32_t round = 0;
};

__device__ inline void InitRing(const StackKernelArgs& a, const StackShared& s) {
  for (int32_t i = 0; i < a.stages; ++i) {
    InitBarrier(&s.full[i], 1);
    InitBarrier(&s.empty[i], kStackWarps);
  }
  FenceBarrierInit();
}

__device__ inline int32_t RowOfTile(const StackLinear& linear, int32_t tile, int32_t r) {
  return WeightRow<kTileRows>(tile, r, linear.n, linear.output == StackOutput::kActivateGated);
}

// One warp: a lane a row of the tile.
template <typename T>
__device__ void StreamWeights(const StackKernelArgs& a, const StackShared& s) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t row_bytes = PaddedRowBytes(a.stage_depth);
  RingCursor at;
  for (int32_t i = 0; i <= kLinearsOfLayer * a.layers; ++i) {
    const StackLinear linear = s.linears[i];
    for (int32_t tile = FirstTile(linear); tile < linear.tiles;
         tile += static_cast<int32_t>(gridDim.x)) {
      const int32_t row = RowOfTile(linear, tile, lane % kTileRows);
      const T* from = static_cast<const T*>(linear.weight) + int64_t{row} * linear.stride;
      for (int32_t depth = 0; depth < linear.k; depth += a.stage_depth) {
        const auto bytes =
            static_cast<uint32_t>(min(a.stage_depth, linear.k - depth)) * uint32_t{sizeof(T)};
        // The first round finds every stage empty: a new barrier's phase before 0 has ended.
        WaitBarrier(&s.empty[at.stage], at.round ^ 1);
        if (lane == 0) ArriveExpecting(&s.full[at.stage], kTileRows * bytes);
        __syncwarp();
        if (lane < kTileRows) {
          CopyBulk(s.ring + at.stage * StageBytes(a.stage_depth) + lane * row_bytes, from + depth,
                   bytes, &s.full[at.stage]);
        }
        at.Next(a.stages);
      }
    }
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_RING_CUH_
