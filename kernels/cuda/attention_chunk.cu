// Several query tokens a row: tiles of 64 queries against tiles of 32 keys, with the running
// softmax of FlashAttention (Dao et al., 2022), in fp32 on the CUDA cores for every type and head
// size.
//
// A block keeps its queries in shared memory and walks over the keys that any of them sees; K and V
// tiles are converted to fp32 as they are loaded, so each is read once a block. 256 threads: in the
// scores a thread owns 4 queries x 2 keys, in the outputs 4 queries x 4 values for every 64 of the
// head. A warp's rows of probabilities are written and read by the same half warp.
//
// Positions that no query of the tile sees are never loaded; the rest of a tile counts as zeros
// with probability 0. Shared memory: 64 + 2 * 32 rows of the head, 142 KB for heads of 256.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/kv_address.cuh"

namespace rally {
namespace {

constexpr int kThreads = 256;
constexpr int kTileQueries = 64;
constexpr int kTileKeys = 32;
constexpr int kLanes = 16;  // threads that share 4 queries
constexpr int kQueriesOfThread = 4;
constexpr int kKeysOfThread = kTileKeys / kLanes;
constexpr int kPadding = 4;  // floats, so that neighbouring rows start in other banks
constexpr int kProbabilityStride = kTileKeys + 1;
static_assert(kThreads / kLanes * kQueriesOfThread == kTileQueries);

struct ChunkArgs {
  AttentionArgs a;
  ChunkTiling tiling;
};

struct Shared {
  __device__ Shared(float* base, int32_t dh)
      : stride(dh + kPadding),
        queries(base),
        keys(queries + kTileQueries * stride),
        values(keys + kTileKeys * stride),
        probabilities(values + kTileKeys * stride) {}

  int32_t stride;
  float* queries;        // (kTileQueries, stride), scaled
  float* keys;           // (kTileKeys, stride)
  float* values;         // (kTileKeys, stride)
  float* probabilities;  // (kTileQueries, kProbabilityStride)
};

size_t SharedBytes(int32_t dh) {
  const int32_t floats =
      (kTileQueries + 2 * kTileKeys) * (dh + kPadding) + kTileQueries * kProbabilityStride;
  return sizeof(float) * static_cast<size_t>(floats);
}

__device__ float4& Quad(float* p) { return *reinterpret_cast<float4*>(p); }

__device__ int64_t QueryOffset(const Matrix& m, const AttentionArgs& a, const ChunkTile& tile,
                               int32_t q) {
  return int64_t{tile.first_token + q / tile.heads} * m.stride +
         int64_t{tile.first_head + q % tile.heads} * a.kv.head_dim;
}

__device__ void LoadQueries(const AttentionArgs& a, const ChunkTile& tile, const Shared& s) {
  const int32_t dh = a.kv.head_dim;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kTileQueries * dh; i += kThreads) {
    const int32_t q = i / dh;
    const bool valid = q < tile.queries();
    s.queries[q * s.stride + i % dh] =
        valid ? LoadAny(a.qkv.dtype, a.qkv.data, QueryOffset(a.qkv, a, tile, q) + i % dh) * a.scale
              : 0.0f;
  }
}

template <typename T>
__device__ void LoadKeys(const KvHead<T>& kv, const Shared& s, int32_t begin, int32_t last) {
  const int32_t quads = kv.head_dim / 4;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kTileKeys * quads; i += kThreads) {
    const int32_t position = begin + i / quads;
    float key[4] = {};
    float value[4] = {};
    if (position <= last) {
      const T* p = kv.At(position) + i % quads * 4;
      LoadPack(p, key);
      LoadPack(p + kv.value_offset, value);
    }
    const int32_t place = i / quads * s.stride + i % quads * 4;
    Quad(s.keys + place) = {key[0], key[1], key[2], key[3]};
    Quad(s.values + place) = {value[0], value[1], value[2], value[3]};
  }
}

// Rows q .. q + 3 times keys lane and lane + 16.
__device__ void Scores(const Shared& s, int32_t dh, int32_t q, int32_t lane,
                       float (&scores)[kQueriesOfThread][kKeysOfThread]) {
  for (int32_t d = 0; d < dh; d += 4) {
    float4 keys[kKeysOfThread];
#pragma unroll
    for (int j = 0; j < kKeysOfThread; ++j) {
      keys[j] = Quad(s.keys + (lane + j * kLanes) * s.stride + d);
    }
#pragma unroll
    for (int i = 0; i < kQueriesOfThread; ++i) {
      const float4 query = Quad(s.queries + (q + i) * s.stride + d);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        float& score = scores[i][j];
        score = fmaf(query.x, keys[j].x, score);
        score = fmaf(query.y, keys[j].y, score);
        score = fmaf(query.z, keys[j].z, score);
        score = fmaf(query.w, keys[j].w, score);
      }
    }
  }
}

// Turns the scores of one query into probabilities; returns what the sums so far shrink by.
__device__ float Softmax(float (&scores)[kKeysOfThread], float& max, float& sum) {
  float larger = max;
#pragma unroll
  for (int j = 0; j < kKeysOfThread; ++j) larger = fmaxf(larger, scores[j]);
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    larger = fmaxf(larger, __shfl_xor_sync(kFullWarp, larger, offset));
  }
  float total = 0;
#pragma unroll
  for (int j = 0; j < kKeysOfThread; ++j) total += scores[j] = expf(scores[j] - larger);
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    total += __shfl_xor_sync(kFullWarp, total, offset);
  }
  const float shrink = expf(max - larger);
  max = larger;
  sum = sum * shrink + total;
  return shrink;
}

template <int kQuads>
__device__ void AddValues(const Shared& s, int32_t dh, int32_t q, int32_t lane,
                          float (&out)[kQueriesOfThread][4 * kQuads]) {
  for (int key = 0; key < kTileKeys; ++key) {
    float p[kQueriesOfThread];
#pragma unroll
    for (int i = 0; i < kQueriesOfThread; ++i) {
      p[i] = s.probabilities[(q + i) * kProbabilityStride + key];
    }
#pragma unroll
    for (int c = 0; c < kQuads; ++c) {
      const int32_t d = (c * kLanes + lane) * 4;
      if (d >= dh) continue;
      const float4 value = Quad(s.values + key * s.stride + d);
#pragma unroll
      for (int i = 0; i < kQueriesOfThread; ++i) {
        out[i][4 * c] = fmaf(p[i], value.x, out[i][4 * c]);
        out[i][4 * c + 1] = fmaf(p[i], value.y, out[i][4 * c + 1]);
        out[i][4 * c + 2] = fmaf(p[i], value.z, out[i][4 * c + 2]);
        out[i][4 * c + 3] = fmaf(p[i], value.w, out[i][4 * c + 3]);
      }
    }
  }
}

template <int kQuads>
__device__ void StoreQueries(const AttentionArgs& a, const ChunkTile& tile, int32_t q, int32_t lane,
                             const float (&sum)[kQueriesOfThread],
                             const float (&out)[kQueriesOfThread][4 * kQuads]) {
#pragma unroll
  for (int i = 0; i < kQueriesOfThread; ++i) {
    if (q + i >= tile.queries()) return;
    const int64_t first = QueryOffset(a.out, a, tile, q + i);
#pragma unroll
    for (int c = 0; c < 4 * kQuads; ++c) {
      const int32_t d = (c / 4 * kLanes + lane) * 4 + c % 4;
      if (d < a.kv.head_dim) StoreAny(a.out.dtype, a.out.data, first + d, out[i][c] / sum[i]);
    }
  }
}

// kQuads: the head has at most 64 kQuads values.
template <typename T, int kQuads>
__global__ void __launch_bounds__(kThreads) ChunkKernel(const ChunkArgs args) {
  LetNextStart();
  WaitForInputs();
  const AttentionArgs& a = args.a;
  ChunkTile tile;
  if (!FindTile(a, args.tiling, blockIdx.x, blockIdx.y, &tile)) return;
  const int32_t dh = a.kv.head_dim;
  const Shared s(reinterpret_cast<float*>(DynamicShared()), dh);
  const KvHead<T> kv(a.kv, a.tables, a.layer, tile.row.slot, tile.kv_head);
  const auto lane = static_cast<int32_t>(threadIdx.x) % kLanes;
  const int32_t q = static_cast<int32_t>(threadIdx.x) / kLanes * kQueriesOfThread;
  LoadQueries(a, tile, s);

  float out[kQueriesOfThread][4 * kQuads] = {};
  float sum[kQueriesOfThread] = {};
  float max[kQueriesOfThread];
#pragma unroll
  for (float& m : max) m = kNoMax;
  const int32_t last = tile.last_position();
  for (int32_t begin = FirstVisible(a.window, tile.first_position); begin <= last;
       begin += kTileKeys) {
    __syncthreads();
    LoadKeys(kv, s, begin, last);
    __syncthreads();
    float scores[kQueriesOfThread][kKeysOfThread] = {};
    Scores(s, dh, q, lane, scores);
#pragma unroll
    for (int i = 0; i < kQueriesOfThread; ++i) {
      const int32_t position = tile.first_position + (q + i) / tile.heads;
      const int32_t first = FirstVisible(a.window, position);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        const int32_t key = begin + lane + j * kLanes;
        if (key > min(position, last) || key < first) scores[i][j] = -INFINITY;
      }
      const float shrink = Softmax(scores[i], max[i], sum[i]);
#pragma unroll
      for (int j = 0; j < kKeysOfThread; ++j) {
        s.probabilities[(q + i) * kProbabilityStride + lane + j * kLanes] = scores[i][j];
      }
#pragma unroll
      for (float& value : out[i]) value *= shrink;
    }
    __syncwarp();
    AddValues<kQuads>(s, dh, q, lane, out);
  }
  StoreQueries<kQuads>(a, tile, q, lane, sum, out);
}

template <typename T, int kQuads>
void Launch(Stream& stream, const ChunkArgs& args) {
  const AttentionArgs& a = args.a;
  const size_t bytes = SharedBytes(a.kv.head_dim);
  const auto kernel = &ChunkKernel<T, kQuads>;
  AllowSharedBytes(stream, "attention", kernel, bytes);
  const dim3 grid(MaxTokenTiles(a, args.tiling), a.kv.kv_heads * args.tiling.head_tiles);
  LaunchKernel(stream, "attention", kernel, {grid, kThreads, bytes}, args);
}

}  // namespace

void EnqueueChunkAttention(Stream& stream, const AttentionArgs& a) {
  const ChunkArgs args = {a, PlanTiling(a, kTileQueries)};
  WithType(a.kv.dtype, [&](auto type) {
    using T = decltype(type);
    if (a.kv.head_dim <= 64) return Launch<T, 1>(stream, args);
    if (a.kv.head_dim <= 128) return Launch<T, 2>(stream, args);
    Launch<T, 4>(stream, args);
  });
}

}  // namespace rally
