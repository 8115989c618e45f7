// What the parts of the decode-stack kernel share: descriptors, arguments, shared memory.
#ifndef RALLY_KERNELS_CUDA_DECODE_STACK_CUH_
#define RALLY_KERNELS_CUDA_DECODE_STACK_CUH_

#include "kernels/cuda/common.cuh"

namespace rally {

inline constexpr int kStackRows = 8;   // tokens at most: the columns of a product
inline constexpr int kStackWarps = 8;  // that compute; one more brings weights
inline constexpr int kStackThreads = kStackWarps * kWarp;
inline constexpr int kStackBlock = kStackThreads + kWarp;
inline constexpr int kTileRows = 8;         // rows of W in a tile
inline constexpr int kTilesAtOnce = 4;      // whose partial sums are added together
inline constexpr int kStackMaxShares = 16;  // of a row's positions
inline constexpr int kDepthStep = 32;       // elements of the depth a warp takes at once
inline constexpr int kRowPadding = 64;      // bytes, so that neighbour rows use other banks

enum class StackInput : int32_t { kResidualNormed, kAttended, kActivated };
enum class StackOutput : int32_t { kStore, kAccumulate, kActivate, kActivateGated, kLogits };

// One matrix product of the stack.
struct StackLinear {
  const void* weight = nullptr;  // (n, k), row r at element r * stride
  const float* bias = nullptr;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  int32_t n = 0;  // columns of the result; a gated product has 2n rows of W
  int32_t k = 0;
  int32_t stride = 0;
  int32_t tiles = 0;
  int32_t rotation = 0;  // the block that has the first tile, so that left-over tiles go round
  StackInput input = StackInput::kResidualNormed;
  StackOutput output = StackOutput::kStore;
};

struct StackAttention {
  const float* q_norm_weight = nullptr;
  const float* k_norm_weight = nullptr;
  float scale = 1;
  int32_t window = 0;
};

// In this order: the four products of each layer (QKV, attention output, up, down), then the head.
inline constexpr int kLinearsOfLayer = 4;

struct StackKernelArgs {
  const StackLinear* linears = nullptr;        // (kLinearsOfLayer * layers + 1)
  const StackAttention* attentions = nullptr;  // (layers)
  int32_t layers = 0;
  int32_t width = 0;
  int32_t max_rows = 0;
  StepRecordView record;
  const TokenMeta* tokens = nullptr;
  Matrix token_embedding;
  Matrix position_embedding;
  float norm_epsilon = 0;
  int32_t q_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  const float* inv_freq = nullptr;
  float rope_scale = 1;
  ActivationKind activation = ActivationKind::kSilu;
  Matrix residual;
  Matrix qkv;
  Matrix attended;
  Matrix activated;
  Matrix logits;
  float* partials = nullptr;    // (rows, Hq, shares, 2 + dh): maximum, sum, outputs not yet divided
  uint32_t* barrier = nullptr;  // two zeros: arrivals, blocks that have ended
  SlotTables tables;
  KvCacheView kv;
  // Shared memory.
  int32_t stage_depth = 0;  // elements of the depth in a stage of the ring
  int32_t stages = 0;
  int32_t input_bytes = 0;
};

// Bytes from row to row where rows of `elements` two-byte values lie in shared memory: 64 more or
// less than a multiple of 128.
__host__ __device__ inline int32_t PaddedRowBytes(int32_t elements) {
  const int32_t bytes = (elements * 2 + kRowPadding - 1) / kRowPadding * kRowPadding;
  return bytes % 128 == 0 ? bytes + kRowPadding : bytes;
}

__host__ __device__ inline int32_t StageBytes(int32_t stage_depth) {
  return kTileRows * PaddedRowBytes(stage_depth);
}

// Partial sums of a group of tiles: [warp][row][tile][row of W]; the padding spreads the rows over
// the banks. Two groups have a place, so that one barrier a group is enough.
inline constexpr int kPartialRow = kTilesAtOnce * kTileRows + 8;
__host__ __device__ inline int32_t PartialFloats(int32_t rows) {
  return kStackWarps * rows * kPartialRow;
}
inline constexpr int kMaxRotaryPairs = 64;

// The block's shared memory.
struct StackShared {
  StackLinear* linears = nullptr;        // a copy, since what only L2 or memory holds comes late
  StackAttention* attentions = nullptr;  // a copy
  StepRow* rows = nullptr;               // (kStackRows): a copy
  float2* rotation = nullptr;      // (rows, kMaxRotaryPairs): cosine and sine of the row's position
  float* scratch = nullptr;        // (2, kStackWarps): sums of the norm
  SharedBarrier* full = nullptr;   // (stages)
  SharedBarrier* empty = nullptr;  // (stages)
  float* partial = nullptr;        // (2, PartialFloats)
  unsigned char* input = nullptr;  // x of a product, rows PaddedRowBytes apart, fp32 rows behind it
                                   // while it is normed; or what attention needs
  unsigned char* ring = nullptr;   // (stages, StageBytes)
};

// Carves it; with base null only the size counts.
struct StackLayout {
  __host__ __device__ StackLayout(const StackKernelArgs& a, unsigned char* base_address)
      : base(reinterpret_cast<uintptr_t>(base_address)) {
    shared.linears = Take<StackLinear>(kLinearsOfLayer * a.layers + 1);
    shared.attentions = Take<StackAttention>(a.layers);
    shared.rows = Take<StepRow>(kStackRows);
    shared.rotation = Take<float2>(a.max_rows * kMaxRotaryPairs);
    shared.scratch = Take<float>(2 * kStackWarps);
    shared.full = Take<SharedBarrier>(a.stages);
    shared.empty = Take<SharedBarrier>(a.stages);
    shared.partial = Take<float>(2 * PartialFloats(a.max_rows));
    shared.input = Take<unsigned char>(a.input_bytes);
    shared.ring = Take<unsigned char>(a.stages * StageBytes(a.stage_depth));
  }
  template <typename Item>
  __host__ __device__ Item* Take(int32_t count) {
    auto* p = reinterpret_cast<Item*>(base + bytes);
    bytes += (sizeof(Item) * static_cast<size_t>(count) + 127) / 128 * 128;
    return p;
  }
  uintptr_t base;
  size_t bytes = 0;
  StackShared shared;
};

// The computing threads of a block; the one that brings weights does not take part.
__device__ inline void SyncStack() { SyncThreads(1, kStackThreads); }

// The first tile of this block, then every gridDim.x-th.
__device__ inline int32_t FirstTile(const StackLinear& linear) {
  const auto grid = static_cast<int32_t>(gridDim.x);
  const int32_t tile = static_cast<int32_t>(blockIdx.x) - linear.rotation;
  return tile < 0 ? tile + grid : tile;
}

// Reads what another block wrote in this kernel: the L1 cache may hold what was there before.
template <int kCount, typename T>
__device__ inline void LoadFresh(const T* p, float (&out)[kCount]) {
  static_assert(sizeof(T) * kCount == 16);
  const uint4 bits = __ldcg(reinterpret_cast<const uint4*>(p));
  const T* values = reinterpret_cast<const T*>(&bits);
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] = ToFloat(values[i]);
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_DECODE_STACK_CUH_
