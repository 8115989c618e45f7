// One query token a row: paged split-KV attention (FlashDecoding; Dao, Haziza, Massa, Sizov, 2023).
//
// A block takes a share of a row's visible positions for one KV head and up to kHeads of the query
// heads that share it, so K and V are read once for all of them: 2 dh elements a position, in
// 16-byte loads along the head. A lane owns 8 values of the head, so 8, 16 or 32 lanes hold a key
// and a warp works on several keys at once. Each such lane group runs its own online softmax over
// its keys, kKeys at a time with all their loads in flight, and groups and warps are merged once
// at the end. The blocks of a row leave (maximum, sum, outputs) in the device's scratch, and a
// second small kernel merges those; a row that has one block is written directly.
//
// The number of shares is fixed at launch, for the largest number of rows: enough blocks for the
// SMs. What is a share's length follows from the row's true length on the device. Positions
// outside of what the query sees are never loaded. Heads: every multiple of 8 up to 256; 64, 128
// and 256 leave no lane idle.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_running.cuh"

namespace rally {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kKeys = 4;  // of a lane group, in flight
constexpr int kMaxShares = 32;
constexpr int kMaxHeads = 8;  // query heads of a block
constexpr int kMaxHeadDim = 256;

struct DecodeArgs {
  AttentionArgs a;
  int32_t shares;
  int32_t head_blocks;  // blocks that the query heads of a KV head take
  float* partials;      // (rows, Hq, shares, 2 + dh): maximum, sum, outputs not yet divided
};

// Writes the block's result for one query head: final, or a partial for the merging kernel.
template <int kLanes>
__device__ void StoreHead(const DecodeArgs& args, const StepRow& row, int32_t head, int32_t d,
                          const Running& running) {
  const AttentionArgs& a = args.a;
  const int32_t dh = a.kv.head_dim;
  if (d >= dh) return;
  if (args.shares == 1) {
    const int64_t first = int64_t{row.token_begin} * a.out.stride + int64_t{head} * dh + d;
    for (int i = 0; i < kPerLane; ++i) {
      StoreAny(a.out.dtype, a.out.data, first + i, running.out[i] / running.sum);
    }
    return;
  }
  const int64_t index = (int64_t{blockIdx.x} * a.q_heads + head) * args.shares + blockIdx.z;
  float* partial = args.partials + index * (2 + dh);
  if (d == 0) {
    partial[0] = running.max;
    partial[1] = running.sum;
  }
  for (int i = 0; i < kPerLane; ++i) partial[2 + d + i] = running.out[i];
}

// Merges the warps through shared memory and stores each head.
template <int kLanes, int kHeads>
__device__ void StoreBlock(const DecodeArgs& args, const StepRow& row, int32_t first_head,
                           int32_t heads, Running (&running)[kHeads]) {
  __shared__ Running merged[kWarps][kHeads][kLanes];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    MergeGroups<kLanes>(running[h]);
    if (lane < kLanes) merged[warp][h][lane] = running[h];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads * kLanes; i += kThreads) {
    const int h = i / kLanes;
    Running total = merged[0][h][i % kLanes];
    for (int w = 1; w < kWarps; ++w) {
      const Running& other = merged[w][h][i % kLanes];
      Merge(total, other.max, other.sum, other.out);
    }
    StoreHead<kLanes>(args, row, first_head + h, i % kLanes * kPerLane, total);
  }
}

// Grid: (rows, KV heads * head blocks, shares).
template <typename T, int kLanes, int kHeads>
__global__ void __launch_bounds__(kThreads) DecodeKernel(const DecodeArgs args) {
  LetNextStart();
  WaitForInputs();
  const AttentionArgs& a = args.a;
  const auto r = static_cast<int32_t>(blockIdx.x);
  if (r >= a.record.header->row_count) return;
  const StepRow row = a.record.rows[r];
  if (row.token_count != 1) return;
  const int32_t group = a.q_heads / a.kv.kv_heads;
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y) / args.head_blocks;
  const int32_t in_group = static_cast<int32_t>(blockIdx.y) % args.head_blocks * kHeads;
  const int32_t first_head = kv_head * group + in_group;
  const int32_t heads = min(kHeads, group - in_group);

  const int32_t d = static_cast<int32_t>(threadIdx.x) % kLanes * kPerLane;
  const int64_t token = int64_t{row.token_begin} * a.qkv.stride;
  float query[kHeads][kPerLane];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int64_t first = token + int64_t{first_head + h} * a.kv.head_dim + d;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const bool valid = h < heads && d < a.kv.head_dim;
      query[h][i] = valid ? LoadAny(a.qkv.dtype, a.qkv.data, first + i) * a.scale : 0.0f;
    }
  }
  const int32_t end = row.first_position + 1;
  const int32_t begin = FirstVisible(a.window, row.first_position);
  const int32_t share = (end - begin + args.shares - 1) / args.shares;
  const int32_t share_begin = begin + static_cast<int32_t>(blockIdx.z) * share;
  const KvHead<T> kv(a.kv, a.tables, a.layer, row.slot, kv_head);
  Running running[kHeads];
  AttendShare<T, kLanes, kHeads, kThreads, kKeys>(kv, query, share_begin,
                                                  min(share_begin + share, end), running);
  StoreBlock<kLanes, kHeads>(args, row, first_head, heads, running);
}

// Merges the shares of one query head: a block a (row, head), a thread a value.
__global__ void __launch_bounds__(kMaxHeadDim) MergeSharesKernel(const DecodeArgs args) {
  LetNextStart();
  WaitForInputs();
  const AttentionArgs& a = args.a;
  const auto r = static_cast<int32_t>(blockIdx.x);
  const auto d = static_cast<int32_t>(threadIdx.x);
  if (r >= a.record.header->row_count || d >= a.kv.head_dim) return;
  const StepRow row = a.record.rows[r];
  if (row.token_count != 1) return;
  const int32_t stride = 2 + a.kv.head_dim;
  const float* partial =
      args.partials + (int64_t{r} * a.q_heads + blockIdx.y) * args.shares * stride;
  float max = kNoMax;
  for (int32_t s = 0; s < args.shares; ++s) max = fmaxf(max, partial[s * stride]);
  float sum = 0;
  float out = 0;
  for (int32_t s = 0; s < args.shares; ++s) {
    const float weight = expf(partial[s * stride] - max);
    sum += weight * partial[s * stride + 1];
    out += weight * partial[s * stride + 2 + d];
  }
  const int64_t first = int64_t{row.token_begin} * a.out.stride;
  StoreAny(a.out.dtype, a.out.data, first + int64_t{blockIdx.y} * a.kv.head_dim + d, out / sum);
}

// Enough blocks to keep the SMs reading, no share shorter than some loads, and no more partials
// than fit the scratch.
int32_t SharesOf(const AttentionArgs& a, int64_t blocks, const CudaStream& cuda,
                 const CudaScratch& scratch) {
  constexpr int64_t kBlocksPerSm = 4;
  constexpr int64_t kLeastPositions = 32;
  const int64_t context = int64_t{a.tables.max_blocks_per_slot} * a.kv.block_tokens;
  const int64_t visible = a.window > 0 ? std::min<int64_t>(a.window, context) : context;
  const int64_t one_share =
      int64_t{a.shape.max_rows} * a.q_heads * (2 + a.kv.head_dim) * int64_t{sizeof(float)};
  const int64_t shares =
      std::min({kBlocksPerSm * cuda.multiprocessors() / blocks, CeilDiv(visible, kLeastPositions),
                int64_t{kMaxShares}, static_cast<int64_t>(scratch.bytes) / one_share});
  return static_cast<int32_t>(std::max<int64_t>(shares, 1));
}

template <typename T, int kLanes, int kHeads>
void Launch(Stream& stream, DecodeArgs args) {
  const AttentionArgs& a = args.a;
  CudaStream& cuda = OnCuda(stream);
  args.head_blocks = static_cast<int32_t>(CeilDiv(a.q_heads / a.kv.kv_heads, kHeads));
  const int64_t blocks = int64_t{a.shape.max_rows} * a.kv.kv_heads * args.head_blocks;
  if (blocks == 0) return;
  args.shares = SharesOf(a, blocks, cuda, cuda.scratch());
  args.partials = static_cast<float*>(cuda.scratch().data);
  const dim3 grid(a.shape.max_rows, a.kv.kv_heads * args.head_blocks, args.shares);
  LaunchKernel(stream, "attention", DecodeKernel<T, kLanes, kHeads>, {grid, kThreads}, args);
  if (args.shares == 1) return;
  LaunchKernel(stream, "attention", MergeSharesKernel,
               {dim3(a.shape.max_rows, a.q_heads), BlockFor(a.kv.head_dim)}, args);
}

template <typename T, int kLanes>
void LaunchHeads(Stream& stream, const DecodeArgs& args) {
  const int32_t group = args.a.q_heads / args.a.kv.kv_heads;
  if (group <= 1) return Launch<T, kLanes, 1>(stream, args);
  if (group <= 2) return Launch<T, kLanes, 2>(stream, args);
  if (group <= 4) return Launch<T, kLanes, 4>(stream, args);
  Launch<T, kLanes, kMaxHeads>(stream, args);
}

}  // namespace

void EnqueueDecodeAttention(Stream& stream, const AttentionArgs& a) {
  const DecodeArgs args = {.a = a, .shares = 1, .head_blocks = 1, .partials = nullptr};
  WithType(a.kv.dtype, [&](auto type) {
    using T = decltype(type);
    if (a.kv.head_dim <= 64) return LaunchHeads<T, 8>(stream, args);
    if (a.kv.head_dim <= 128) return LaunchHeads<T, 16>(stream, args);
    LaunchHeads<T, 32>(stream, args);
  });
}

}  // namespace rally
