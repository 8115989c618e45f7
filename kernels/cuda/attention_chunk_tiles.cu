// Several query tokens a row on tensor cores (FlashAttention-2; Dao, 2023), for bf16 and fp16 and
// heads of 64 and 128 values.
//
// Grid: (KV heads * head tiles, token tiles). A block takes 128 queries (64 where there would be
// too few blocks), which are tokens times the query heads of a KV head: with groups of 4 they span
// 32 positions, so little is computed above the diagonal, and a key is read once for the group. The
// longest tiles come first, so that the short ones fill the end.
//
// Four warps, each with its own 32 (16) queries; scores, softmax and outputs stay in registers, the
// scores of one product being the weights of the next. Of K and V there are two tiles of 48
// positions in shared memory: while one is used, the next is copied, 16 bytes a copy, straight from
// the paged cache; one barrier a tile.
//
// Why 32 queries a warp: fragments of K and V come through ldmatrix, and serve twice the products
// that 16 queries would ask for. With heads of 128, the warps of a block read 128 KB a tile (1,024
// cycles) for 768 products (some 1,200 cycles at the rate that mma reaches). Why 48 positions: with
// 64, the 128 + 64 registers of outputs and scores leave too few for the rest, and some spill. At
// 255 registers and 80 KB there are two blocks on an SM, so that the softmax of the one hides
// behind the products of the other.
//
// FLOPs: 4 dh a query and visible key. Bytes: K and V once a block, mostly from the L2 cache.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/attention_tiles.cuh"

namespace rally {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileKeys = 48;
constexpr int kKeyTiles = kTileKeys / 8;  // of 8 keys, as products take them

struct KernelArgs {
  AttentionArgs a;
  ChunkTiling tiling;
};

// kRowTiles: of 16 queries, a warp.
template <typename T, int kHeadDim, int kRowTiles>
struct Shared {
  T queries[kWarps * kRowTiles * 16 * kHeadDim];  // later the outputs
  T keys[2][kTileKeys * kHeadDim];
  T values[2][kTileKeys * kHeadDim];
  // Here rather than in registers, of which the loop has none to spare.
  KvHead<T> kv;
  ChunkTile tile;
};

// What a lane holds of its warp's queries: fragments of 16 rows, of which it has rows g and g + 8.
template <int kHeadDim, int kRowTiles>
struct WarpState {
  float max[kRowTiles][2];
  float sum[kRowTiles][2];  // of this lane's keys
  float out[kRowTiles][kHeadDim / 8][4];
};

__device__ inline int32_t WarpIndex() { return static_cast<int32_t>(threadIdx.x) / kWarp; }
__device__ inline int32_t Lane() { return static_cast<int32_t>(threadIdx.x) % kWarp; }

// Where the values of query q lie.
template <typename T>
__device__ T* QueryIn(const Matrix& m, const AttentionArgs& a, const ChunkTile& tile, int32_t q) {
  return RowOf<T>(m, tile.first_token + q / tile.heads) +
         (tile.first_head + q % tile.heads) * a.kv.head_dim;
}

// Starts to copy the tile's queries; rows beyond are zeros.
template <typename T, int kHeadDim, int kRows>
__device__ void CopyQueries(const AttentionArgs& a, const ChunkTile& tile, T* queries) {
  constexpr int kChunks = kHeadDim / kChunkValues;
  constexpr int kAtOnce = kThreads / kChunks;
  const int32_t chunk = static_cast<int32_t>(threadIdx.x) % kChunks;
  for (int32_t q = static_cast<int32_t>(threadIdx.x) / kChunks; q < kRows; q += kAtOnce) {
    const bool valid = q < tile.queries();
    const T* from = QueryIn<T>(a.qkv, a, tile, valid ? q : 0) + chunk * kChunkValues;
    CopyAsync16(ChunkOf<kHeadDim>(queries, q, chunk), from, valid);
  }
}

template <int kHeadDim, int kRowTiles>
__device__ void Start(WarpState<kHeadDim, kRowTiles>& state) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      state.max[m][half] = kNoMax;
      state.sum[m][half] = 0;
    }
#pragma unroll
    for (auto& out : state.out[m]) {
#pragma unroll
      for (float& value : out) value = 0;
    }
  }
}

template <typename T, int kHeadDim, int kRowTiles>
__device__ void Scores(T* queries, T* keys, int32_t first,
                       float (&scores)[kRowTiles][kKeyTiles][4]) {
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      LoadQueryTile<kHeadDim>(queries, (WarpIndex() * kRowTiles + m) * 16, k, a[m]);
    }
#pragma unroll
    for (int pair = 0; pair < kKeyTiles / 2; ++pair) {
      uint32_t b[2][2];
      LoadKeyTiles<kHeadDim>(keys, first + pair * 16, k, b);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyTile<T>(scores[m][2 * pair], a[m], b[0]);
        MultiplyTile<T>(scores[m][2 * pair + 1], a[m], b[1]);
      }
    }
  }
}

// Every query of the tile sees every key of [begin, begin + kTileKeys).
__device__ inline bool AllSeeAll(const ChunkTile& tile, int32_t window, int32_t begin) {
  return begin + kTileKeys - 1 <= tile.first_position &&
         begin >= FirstVisible(window, tile.last_position());
}

// Keys that a query does not see count as -Inf. `begin` is the tile's first position.
template <int kRowTiles>
__device__ void Mask(const ChunkTile& tile, int32_t window, int32_t begin,
                     float (&scores)[kRowTiles][kKeyTiles][4]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t q = (WarpIndex() * kRowTiles + m) * 16 + half * 8 + Lane() / 4;
      const int32_t last = tile.first_position + q / tile.heads;
      const int32_t first = FirstVisible(window, last);
#pragma unroll
      for (int i = 0; i < 2 * kKeyTiles; ++i) {
        const int32_t key = begin + i / 2 * 8 + Lane() % 4 * 2 + i % 2;
        if (key > last || key < first) scores[m][i / 2][2 * half + i % 2] = -INFINITY;
      }
    }
  }
}

// Weights in the element type, as A operands of products over 16 keys.
template <int kRowTiles>
using Weights = uint32_t[kKeyTiles / 2][kRowTiles][4];

// Turns scores into weights and shrinks what there is by the growth of the maxima.
template <typename T, int kHeadDim, int kRowTiles>
__device__ void Softmax(float scale, const float (&scores)[kRowTiles][kKeyTiles][4],
                        WarpState<kHeadDim, kRowTiles>& state, Weights<kRowTiles>& weights) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& max = state.max[m][half];
      float larger = max;
#pragma unroll
      for (int i = 0; i < 2 * kKeyTiles; ++i) {
        larger = fmaxf(larger, scores[m][i / 2][2 * half + i % 2]);
      }
      larger = QuadMax(larger);
      const float shrink = Exp2((max - larger) * scale);
      max = larger;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kKeyTiles; ++i) {
        const float first = Exp2(fmaf(scores[m][i][2 * half], scale, -larger * scale));
        const float second = Exp2(fmaf(scores[m][i][2 * half + 1], scale, -larger * scale));
        sum += first + second;
        weights[i / 2][m][i % 2 * 2 + half] = PackPair<T>(first, second);
      }
      state.sum[m][half] = fmaf(state.sum[m][half], shrink, sum);
#pragma unroll
      for (auto& out : state.out[m]) {
        out[2 * half] *= shrink;
        out[2 * half + 1] *= shrink;
      }
    }
  }
}

template <typename T, int kHeadDim, int kRowTiles>
__device__ void AddValues(T* values, int32_t first, const Weights<kRowTiles>& weights,
                          WarpState<kHeadDim, kRowTiles>& state) {
#pragma unroll
  for (int pair = 0; pair < kKeyTiles / 2; ++pair) {
#pragma unroll
    for (int c = 0; c < kHeadDim / 16; ++c) {
      uint32_t b[2][2];
      LoadValueTiles<kHeadDim>(values, first + pair * 16, c, b);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyTile<T>(state.out[m][2 * c], weights[pair][m], b[0]);
        MultiplyTile<T>(state.out[m][2 * c + 1], weights[pair][m], b[1]);
      }
    }
  }
}

// A warp's outputs go through shared memory, where its queries were, so that stores are of whole
// chunks.
template <typename T, int kHeadDim, int kRowTiles>
__device__ void StoreOutputs(const AttentionArgs& a, const ChunkTile& tile,
                             const WarpState<kHeadDim, kRowTiles>& state, T* rows) {
  constexpr int kChunks = kHeadDim / kChunkValues;
  const int32_t first = WarpIndex() * kRowTiles * 16;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = 1.0f / QuadSum(state.sum[m][half]);
      const int32_t row = first + m * 16 + half * 8 + Lane() / 4;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float pair[2] = {state.out[m][c][2 * half] * factor,
                               state.out[m][c][2 * half + 1] * factor};
        StorePack(pair, ChunkOf<kHeadDim>(rows, row, c) + Lane() % 4 * 2);
      }
    }
  }
  __syncwarp();
  using Chunk = Pack<T, kChunkValues>;
  for (int32_t i = Lane(); i < kRowTiles * 16 * kChunks; i += kWarp) {
    const int32_t q = first + i / kChunks;
    if (q >= tile.queries()) return;
    T* to = QueryIn<T>(a.out, a, tile, q) + i % kChunks * kChunkValues;
    *reinterpret_cast<Chunk*>(to) =
        *reinterpret_cast<const Chunk*>(ChunkOf<kHeadDim>(rows, q, i % kChunks));
  }
}

// Starts to copy the tile of keys from `begin` on, if there is one.
template <typename T, int kHeadDim, int kRowTiles>
__device__ void CopyKeys(const KvHead<T>& kv, const ChunkTile& tile, int32_t begin, int32_t stage,
                         Shared<T, kHeadDim, kRowTiles>& s) {
  const int32_t end = tile.last_position() + 1;
  if (begin < end) {
    CopyPositions<kHeadDim, kTileKeys, kThreads>(kv, begin, end, static_cast<int32_t>(threadIdx.x),
                                                 s.keys[stage], s.values[stage]);
  }
  CommitCopies();
}

// All keys up to position `last`. The first tile is on its way.
template <typename T, int kHeadDim, int kRowTiles>
__device__ void Attend(const AttentionArgs& a, int32_t first, int32_t last,
                       Shared<T, kHeadDim, kRowTiles>& s, WarpState<kHeadDim, kRowTiles>& state) {
  int32_t stage = 0;
  for (int32_t begin = first; begin <= last; begin += kTileKeys) {
    WaitForCopies<0>();
    __syncthreads();  // this tile is there, and all warps are done with the other stage
    CopyKeys(s.kv, s.tile, begin + kTileKeys, 1 - stage, s);
    float scores[kRowTiles][kKeyTiles][4] = {};
    Scores<T, kHeadDim>(s.queries, s.keys[0], stage * kTileKeys, scores);
    if (!AllSeeAll(s.tile, a.window, begin)) Mask(s.tile, a.window, begin, scores);
    Weights<kRowTiles> weights;
    Softmax<T>(a.scale * kLog2E, scores, state, weights);
    AddValues<T>(s.values[0], stage * kTileKeys, weights, state);
    stage = 1 - stage;
  }
}

template <typename T, int kHeadDim, int kRowTiles>
__global__ void __launch_bounds__(kThreads, 2) ChunkTilesKernel(const KernelArgs args) {
  LetNextStart();
  WaitForInputs();
  const AttentionArgs& a = args.a;
  ChunkTile tile;
  if (!FindTile(a, args.tiling, blockIdx.y, blockIdx.x, &tile)) return;
  auto& s = *reinterpret_cast<Shared<T, kHeadDim, kRowTiles>*>(DynamicShared());
  const int32_t first = FirstVisible(a.window, tile.first_position);
  {
    const KvHead<T> kv(a.kv, a.tables, a.layer, tile.row.slot, tile.kv_head);
    CopyQueries<T, kHeadDim, kWarps * kRowTiles * 16>(a, tile, s.queries);
    CopyKeys(kv, tile, first, 0, s);
    if (threadIdx.x == 0) {
      s.kv = kv;
      s.tile = tile;
    }
  }
  WarpState<kHeadDim, kRowTiles> state;
  Start(state);
  Attend(a, first, tile.last_position(), s, state);
  StoreOutputs<T>(a, s.tile, state, s.queries);
}

template <typename T, int kHeadDim, int kRowTiles>
void Launch(Stream& stream, const AttentionArgs& a, const ChunkTiling& tiling) {
  const auto kernel = &ChunkTilesKernel<T, kHeadDim, kRowTiles>;
  constexpr size_t kBytes = sizeof(Shared<T, kHeadDim, kRowTiles>);
  AllowSharedBytes(stream, "attention", kernel, kBytes);
  const dim3 grid(a.kv.kv_heads * tiling.head_tiles, MaxTokenTiles(a, tiling));
  LaunchKernel(stream, "attention", kernel, {grid, kThreads, kBytes}, KernelArgs{a, tiling});
}

}  // namespace

bool EnqueueTiledChunkAttention(Stream& stream, const AttentionArgs& a) {
  return WithTiles(a, [&](auto type, auto head_dim) {
    using T = decltype(type);
    const ChunkTiling large = PlanTiling(a, kWarps * 32);
    const int64_t blocks = int64_t{a.shape.max_tokens} / large.tokens * a.kv.kv_heads;
    if (blocks >= OnCuda(stream).multiprocessors()) {
      return Launch<T, head_dim, 2>(stream, a, large);
    }
    Launch<T, head_dim, 1>(stream, a, PlanTiling(a, kWarps * 16));
  });
}

}  // namespace rally
