// The whole decoder for up to 8 rows of one token each, as one kernel of a block a multiprocessor.
//
// What a small batch costs is not bytes alone: GPT-2 124M reads 247 MB a token, 58 us at 4.3 TB/s,
// but its step is a chain of 60 dependent products, and a kernel boundary costs about 2.9 us even
// where launches overlap. Here the blocks stay and meet at a counter in memory, about 1.2 us, five
// times a layer:
//
//   norm + QKV | head norms, rotary positions, KV append, attention | output + residual |
//   norm + up + activation | down + residual        ... and at the end norm + head
//
// One warp of each block streams its weights through a ring in shared memory the whole time
// (decode_stack_ring.cuh), so memory is read on while the others wait; they find their tiles
// loaded. Values that cross blocks go through L2 (LoadFresh); sums are fp32, in a fixed order.
//
// Why a spin loop is safe: all blocks run at once (LaunchShape::all_resident), and a block arrives
// without waiting for one that waits for it.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_KERNEL_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_KERNEL_CUH_

#include "kernels/cuda/decode_stack_attention.cuh"
#include "kernels/cuda/decode_stack_linear.cuh"

namespace rally {

// All computing threads of all blocks meet; what they wrote before is visible after.
struct StackBarrier {
  template <typename Meanwhile>
  __device__ void Meet(const Meanwhile& meanwhile) {
    SyncStack();
    if (threadIdx.x == 0) {
      __threadfence();
      AddRelease(arrivals, 1);
    }
    expected += gridDim.x;
    meanwhile();
    if (threadIdx.x == 0) {
      while (LoadAcquire(arrivals) < expected) {
      }
      __threadfence();
    }
    SyncStack();
  }
  uint32_t* arrivals;
  uint32_t expected = 0;
};

// The last block to end leaves zeros for the next launch. No block still polls then.
__device__ inline void LeaveBarrier(const StackKernelArgs& a) {
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(a.barrier + 1, 1u) + 1 != gridDim.x) return;
  a.barrier[0] = 0;
  a.barrier[1] = 0;
}

// Vectors of the next product, while the block waits for the others.
__device__ inline void PrefetchVectors(const StackLinear& linear) {
  constexpr int kFloats = 128 / sizeof(float);  // of a cache line
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (linear.norm_weight != nullptr) {
    for (int32_t i = thread * kFloats; i < linear.k; i += kStackThreads * kFloats) {
      PrefetchL1(linear.norm_weight + i);
      if (linear.norm_bias != nullptr) PrefetchL1(linear.norm_bias + i);
    }
  }
  const int32_t tile = FirstTile(linear) + thread * static_cast<int32_t>(gridDim.x);
  if (linear.bias == nullptr || thread >= kTilesAtOnce || tile >= linear.tiles) return;
  PrefetchL1(linear.bias + RowOfTile(linear, tile, 0));
  PrefetchL1(linear.bias + RowOfTile(linear, tile, kTileRows - 1));
}

template <typename Item>
__device__ void CopyItems(const Item* from, int32_t count, Item* to) {
  static_assert(sizeof(Item) % sizeof(uint32_t) == 0);
  const auto words = static_cast<int32_t>(count * sizeof(Item) / sizeof(uint32_t));
  for (auto i = static_cast<int32_t>(threadIdx.x); i < words;
       i += static_cast<int32_t>(blockDim.x)) {
    reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
  }
}

template <typename T, int kLanes, int kHeads>
__device__ void ComputeStack(const StackKernelArgs& a, const StackShared& s) {
  const int32_t rows = min(a.record.header->row_count, a.max_rows);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows; i += kStackThreads) {
    s.rows[i] = a.record.rows[i];
  }
  SyncStack();
  FillRotations(a, s, rows);
  const int32_t shares = SharesOfStep(s, rows, a.kv.kv_heads);
  StackBarrier barrier{a.barrier};
  RingCursor at;
  for (int32_t layer = 0; layer < a.layers; ++layer) {
    const StackLinear* linear = s.linears + layer * kLinearsOfLayer;
    RunLinear<T>(a, s, linear[0], rows, shares, layer == 0, at);
    barrier.Meet([&] { PrefetchVectors(linear[1]); });
    RunAttention<T, kLanes, kHeads>(a, s, layer, rows, shares);
    for (int i = 1; i < kLinearsOfLayer; ++i) {
      barrier.Meet([&] { PrefetchVectors(linear[i]); });
      RunLinear<T>(a, s, linear[i], rows, shares, false, at);
    }
    barrier.Meet([&] { PrefetchVectors(linear[kLinearsOfLayer]); });
  }
  RunLinear<T>(a, s, s.linears[kLinearsOfLayer * a.layers], rows, shares, false, at);
  LeaveBarrier(a);
}

template <typename T, int kLanes, int kHeads>
__global__ void __launch_bounds__(kStackBlock, 1) DecodeStackKernel(const StackKernelArgs a) {
  const StackShared s = StackLayout(a, DynamicShared()).shared;
  LetNextStart();
  if (threadIdx.x == 0) InitRing(a, s);
  CopyItems(a.linears, kLinearsOfLayer * a.layers + 1, s.linears);
  CopyItems(a.attentions, a.layers, s.attentions);
  __syncthreads();
  if (threadIdx.x >= kStackThreads) {
    StreamWeights<T>(a, s);
  } else {
    WaitForInputs();
    ComputeStack<T, kLanes, kHeads>(a, s);
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_KERNEL_CUH_
