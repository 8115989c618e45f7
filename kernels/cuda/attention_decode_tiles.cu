// Decode attention of one layer as one kernel, on tensor cores: head norms, rotary positions, KV
// append, and split-KV attention (FlashDecoding; Dao, Haziza, Massa, Sizov, 2023) over the paged
// cache, for bf16 and fp16 and heads of 64 and 128 values.
//
// Grid: (rows, KV heads * head blocks, shares). A block takes a share of a row's positions for one
// KV head and up to 8 of the query heads that share it; the shares are a cluster and merge through
// its shared memory, in their order, so that there are no partials in global memory and no second
// kernel. How many shares there are is fixed at launch, so that the SMs have blocks enough; how
// long one is follows from the row's length, and blocks without a share leave at once.
//
// Memory: reads 4 dh bytes a position and KV head, once. Each warp has tiles of 16 positions of its
// own and a ring of kStages in shared memory, filled by 16-byte asynchronous copies, and meets the
// other warps only at the end. An SM has 192 KB of such copies under way (4 blocks of 48 KB, or 2
// of 96 KB); 20 to 40 KB hide the memory's latency. The copies start before the queries are
// prepared.
//
// Instructions: a tile of heads of 64 (4 KB) is 16 products and 8 ldmatrix, about 30 instructions
// for the copy and 70 for the softmax and the shrinking of the outputs: some 130 a warp, or one a
// lane and byte. At 4.3 TB/s an SM takes in 19 bytes a cycle and may issue 128 lanes: 6.7 a byte.
// That holds for one query head as for 8, since a product has 16 rows anyway (half of them zeros).
//
// The newest position never comes from the cache: share 0 writes it there and takes it, exactly,
// from shared memory as the first one of its softmax. No block reads what another writes.
#include "kernels/cuda/attention_decode_item.cuh"
#include "kernels/cuda/cuda_ops.h"

namespace rally {
namespace {

constexpr int kStages = 3;
constexpr int kMaxShares = 8;

// A softmax over some positions: outputs are not yet divided by their sum. Scores are in units of
// log 2.
template <int kHeadDim>
struct Partial {
  float out[kDecodeHeads][kHeadDim + 8];  // so that the rows of a fragment differ in banks
  float max[kDecodeHeads];
  float sum[kDecodeHeads];
};

// A warp's own memory. Once it has read all of its tiles, its result lies where they were.
template <typename T, int kHeadDim>
union WarpShared {
  T ring[kStages][2][kDecodePositions * kHeadDim];  // K, V
  Partial<kHeadDim> part;
};

template <typename T, int kHeadDim>
struct Shared {
  WarpShared<T, kHeadDim> warps[kDecodeWarps];
  T heads[kDecodeHeadRows][kHeadDim];  // in chunks as a tile's
  Partial<kHeadDim> part;              // of the block
};

// A warp's softmax over its positions, spread as the fragments of a product: query g in out[.][0]
// and [1], the rows beyond 8 idle. `sum` is of this lane's positions alone until the end.
template <typename T, int kHeadDim>
struct WarpState {
  static constexpr int kDepth = kHeadDim / 16;  // products over the head

  uint32_t queries[kDepth][2];
  float scale;  // of scores, log2(e) included
  float max = kNoMax;
  float sum = 0;
  float out[kHeadDim / 8][4] = {};
};

template <typename T, int kHeadDim>
__device__ void LoadQueries(const DecodeItem& item, T* heads, WarpState<T, kHeadDim>& state) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t row = min(lane % 8, item.heads - 1);  // rows that have no query repeat the last
#pragma unroll
  for (int k = 0; k < state.kDepth; k += 2) {
    uint32_t tiles[4];
    LoadTiles(ChunkOf<kHeadDim>(heads, row, 2 * k + lane / 8), tiles);
    state.queries[k][0] = tiles[0];
    state.queries[k][1] = tiles[1];
    state.queries[k + 1][0] = tiles[2];
    state.queries[k + 1][1] = tiles[3];
  }
}

// The newest position, as the first one.
template <typename T, int kHeadDim>
__device__ void StartWithNewest(const DecodeItem& item, T* heads, WarpState<T, kHeadDim>& state) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t row = min(lane / 4, item.heads - 1);
  float score = 0;
#pragma unroll
  for (int32_t chunk = lane % 4; chunk < kHeadDim / kChunkValues; chunk += 4) {
    float query[kChunkValues];
    float key[kChunkValues];
    LoadPack(ChunkOf<kHeadDim>(heads, row, chunk), query);
    LoadPack(ChunkOf<kHeadDim>(heads, kKeyRow, chunk), key);
#pragma unroll
    for (int i = 0; i < kChunkValues; ++i) score = fmaf(query[i], key[i], score);
  }
  state.max = QuadSum(score) * state.scale;
  state.sum = lane % 4 == 0 ? 1.0f : 0.0f;
#pragma unroll
  for (int c = 0; c < kHeadDim / kChunkValues; ++c) {
    float value[2];
    LoadPack(ChunkOf<kHeadDim>(heads, kValueRow, c) + lane % 4 * 2, value);
    state.out[c][0] = value[0];
    state.out[c][1] = value[1];
  }
}

// One tile, of which the first `valid` positions count.
template <typename T, int kHeadDim>
__device__ void AddTile(T* keys, T* values, int32_t valid, WarpState<T, kHeadDim>& state) {
  const int32_t first = static_cast<int32_t>(threadIdx.x) % 4 * 2;
  float scores[2][4] = {};
#pragma unroll
  for (int k = 0; k < state.kDepth; ++k) {
    const uint32_t queries[4] = {state.queries[k][0], 0, state.queries[k][1], 0};
    uint32_t b[2][2];
    LoadKeyTiles<kHeadDim>(keys, 0, k, b);
    MultiplyTile<T>(scores[0], queries, b[0]);
    MultiplyTile<T>(scores[1], queries, b[1]);
  }
  float larger = state.max;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float& score = scores[i / 2][i % 2];
    score = i / 2 * 8 + first + i % 2 < valid ? score * state.scale : -INFINITY;
    larger = fmaxf(larger, score);
  }
  larger = QuadMax(larger);
  const float shrink = Exp2(state.max - larger);
  state.max = larger;
  state.sum *= shrink;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float& score = scores[i / 2][i % 2];
    state.sum += score = Exp2(score - larger);
  }
  const uint32_t weights[4] = {PackPair<T>(scores[0][0], scores[0][1]), 0,
                               PackPair<T>(scores[1][0], scores[1][1]), 0};
#pragma unroll
  for (int c = 0; c < kHeadDim / 16; ++c) {
    uint32_t b[2][2];
    LoadValueTiles<kHeadDim>(values, 0, c, b);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float(&out)[4] = state.out[2 * c + half];
      out[0] *= shrink;
      out[1] *= shrink;
      MultiplyTile<T>(out, weights, b[half]);
    }
  }
}

// The warp's tiles of the share: every kDecodeWarps-th, through its ring.
template <typename T, int kHeadDim>
struct Tiles {
  using Ring = T (*)[2][kDecodePositions * kHeadDim];

  __device__ Tiles(const KvHead<T>& head, const DecodeItem& item, Ring own_ring)
      : kv(head),
        ring(own_ring),
        first(item.begin + static_cast<int32_t>(threadIdx.x) / kWarp * kDecodePositions),
        end(item.end) {}

  __device__ int32_t FirstOf(int32_t tile) const {
    return first + tile * kDecodeWarps * kDecodePositions;
  }

  // A group of copies for each tile, also for those that there are not.
  __device__ void Copy(int32_t tile, int32_t stage) const {
    if (FirstOf(tile) < end) {
      CopyPositions<kHeadDim, kDecodePositions, kWarp>(kv, FirstOf(tile), end,
                                                       static_cast<int32_t>(threadIdx.x) % kWarp,
                                                       ring[stage][0], ring[stage][1]);
    }
    CommitCopies();
  }

  __device__ void Start() const {
    for (int32_t tile = 0; tile < kStages; ++tile) Copy(tile, tile);
  }

  __device__ void AddTo(WarpState<T, kHeadDim>& state) const {
    int32_t stage = 0;
    for (int32_t tile = 0; FirstOf(tile) < end; ++tile) {
      WaitForCopies<kStages - 1>();
      __syncwarp();
      AddTile(ring[stage][0], ring[stage][1], end - FirstOf(tile), state);
      __syncwarp();
      Copy(tile + kStages, stage);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    WaitForCopies<0>();
    __syncwarp();
  }

  const KvHead<T>& kv;
  Ring ring;
  int32_t first;
  int32_t end;
};

template <typename T, int kHeadDim>
__device__ void StoreState(const DecodeItem& item, const WarpState<T, kHeadDim>& state,
                           Partial<kHeadDim>& to) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int32_t row = lane / 4;
  const float sum = QuadSum(state.sum);
  if (row >= item.heads) return;
#pragma unroll
  for (int c = 0; c < kHeadDim / 8; ++c) {
    const float pair[2] = {state.out[c][0], state.out[c][1]};
    StorePack(pair, &to.out[row][8 * c + lane % 4 * 2]);
  }
  if (lane % 4 == 0) {
    to.max[row] = state.max;
    to.sum[row] = sum;
  }
}

// Two values of a head, of several partials.
struct Merged {
  float max;
  float sum;
  float out[2];
};

// part(i): the i-th of `count`; merged in that order.
template <typename Part>
__device__ Merged MergeParts(int32_t count, int32_t head, int32_t d, const Part& part) {
  Merged m = {kNoMax, 0, {0, 0}};
  for (int32_t i = 0; i < count; ++i) m.max = fmaxf(m.max, part(i)->max[head]);
  for (int32_t i = 0; i < count; ++i) {
    const auto* p = part(i);
    const float weight = Exp2(p->max[head] - m.max);
    float out[2];
    LoadPack(&p->out[head][d], out);
    m.sum = fmaf(weight, p->sum[head], m.sum);
    m.out[0] = fmaf(weight, out[0], m.out[0]);
    m.out[1] = fmaf(weight, out[1], m.out[1]);
  }
  return m;
}

template <typename T, int kHeadDim>
__device__ void StoreOutput(const AttentionArgs& a, const DecodeItem& item, int32_t head, int32_t d,
                            const Merged& m) {
  const float pair[2] = {m.out[0] / m.sum, m.out[1] / m.sum};
  StorePack(pair, RowOf<T>(a.out, item.row.token_begin) + (item.first_head + head) * kHeadDim + d);
}

// Merges the warps, and leaves the outputs or, where there are more shares, the block's part.
template <typename T, int kHeadDim>
__device__ void MergeWarps(const AttentionArgs& a, const DecodeItem& item, Shared<T, kHeadDim>& s) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x) * 2; i < item.heads * kHeadDim;
       i += kDecodeThreads * 2) {
    const int32_t head = i / kHeadDim;
    const int32_t d = i % kHeadDim;
    const Merged m = MergeParts(kDecodeWarps, head, d, [&](int32_t w) { return &s.warps[w].part; });
    if (item.used_shares == 1) {
      StoreOutput<T, kHeadDim>(a, item, head, d, m);
      continue;
    }
    StorePack(m.out, &s.part.out[head][d]);
    if (d == 0) {
      s.part.max[head] = m.max;
      s.part.sum[head] = m.sum;
    }
  }
}

// Each block of the cluster that had a share merges some of the outputs.
template <typename T, int kHeadDim>
__device__ void MergeShares(const AttentionArgs& a, const DecodeItem& item,
                            Shared<T, kHeadDim>& s) {
  SyncCluster();
  for (int32_t i = (static_cast<int32_t>(threadIdx.x) + item.share * kDecodeThreads) * 2;
       i < item.heads * kHeadDim; i += item.used_shares * kDecodeThreads * 2) {
    const int32_t head = i / kHeadDim;
    const int32_t d = i % kHeadDim;
    const Merged m = MergeParts(item.used_shares, head, d, [&](int32_t share) {
      return InBlockOfCluster(&s.part, static_cast<uint32_t>(share));
    });
    StoreOutput<T, kHeadDim>(a, item, head, d, m);
  }
  SyncCluster();  // nobody leaves while its part is read
}

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kDecodeThreads, kHeadDim == 64 ? 4 : 2)
    DecodeTilesKernel(const DecodeTileArgs args) {
  LetNextStart();
  WaitForInputs();
  const AttentionArgs& a = args.decode.attention;
  DecodeItem item;
  if (!FindDecodeItem(args, &item)) return;
  auto& s = *reinterpret_cast<Shared<T, kHeadDim>*>(DynamicShared());
  const KvHead<T> kv(a.kv, a.tables, a.layer, item.row.slot, item.kv_head);
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  const Tiles<T, kHeadDim> tiles(kv, item, s.warps[warp].ring);
  tiles.Start();
  PrepareDecodeHeads<T, kHeadDim>(args.decode, item, s.heads[0]);
  __syncthreads();
  if (item.share == 0) AppendNewestHeads<T, kHeadDim>(kv, item.newest(), s.heads[0]);
  WarpState<T, kHeadDim> state;
  state.scale = a.scale * kLog2E;
  LoadQueries(item, s.heads[0], state);
  if (item.share == 0 && warp == 0) StartWithNewest(item, s.heads[0], state);
  tiles.AddTo(state);
  StoreState(item, state, s.warps[warp].part);
  __syncthreads();
  MergeWarps(a, item, s);
  if (item.used_shares > 1) MergeShares(a, item, s);
}

// Blocks enough for the SMs, but no share that would be some tiles a warp at most.
int32_t SharesOf(const AttentionArgs& a, int64_t blocks, int64_t multiprocessors) {
  constexpr int64_t kBlocksPerSm = 2;
  constexpr int64_t kLeastPositions = 64;
  const int64_t context = int64_t{a.tables.max_blocks_per_slot} * a.kv.block_tokens;
  const int64_t visible = a.window > 0 ? std::min<int64_t>(a.window, context) : context;
  int32_t shares = 1;
  while (shares < kMaxShares && blocks * shares < kBlocksPerSm * multiprocessors &&
         2 * shares * kLeastPositions <= visible) {
    shares *= 2;
  }
  return shares;
}

template <typename T, int kHeadDim>
void Launch(Stream& stream, const DecodeAttentionArgs& d) {
  const AttentionArgs& a = d.attention;
  const auto head_blocks = static_cast<int32_t>(CeilDiv(a.q_heads / a.kv.kv_heads, kDecodeHeads));
  const int64_t blocks = int64_t{a.shape.max_rows} * a.kv.kv_heads * head_blocks;
  const int32_t shares = SharesOf(a, blocks, OnCuda(stream).multiprocessors());
  const auto kernel = &DecodeTilesKernel<T, kHeadDim>;
  constexpr size_t kBytes = sizeof(Shared<T, kHeadDim>);
  AllowSharedBytes(stream, "decode_attention", kernel, kBytes);
  const dim3 grid(a.shape.max_rows, a.kv.kv_heads * head_blocks, shares);
  LaunchKernel(stream, "decode_attention", kernel, {grid, kDecodeThreads, kBytes, shares},
               DecodeTileArgs{d, head_blocks});
}

}  // namespace

bool EnqueueFusedDecodeAttention(Stream& stream, const DecodeAttentionArgs& d) {
  return WithTiles(d.attention,
                   [&](auto type, auto head_dim) { Launch<decltype(type), head_dim>(stream, d); });
}

}  // namespace rally
