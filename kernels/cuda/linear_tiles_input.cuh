// Brings a block's share of W and x into shared memory, x normed where that is asked for.
#ifndef RALLY_KERNELS_CUDA_LINEAR_TILES_INPUT_CUH_
#define RALLY_KERNELS_CUDA_LINEAR_TILES_INPUT_CUH_

#include "kernels/cuda/linear_tiles.cuh"
#include "kernels/cuda/weight_rows.cuh"

namespace rally {

struct DepthShare {
  __device__ explicit DepthShare(const LinearTileArgs& a)
      : begin(static_cast<int32_t>(blockIdx.z) * a.depth), size(min(a.depth, a.k - begin)) {}
  int32_t begin;
  int32_t size;
};

template <typename T, typename Tile>
__device__ void StageWeights(const LinearTileArgs& a, const DepthShare& share, int32_t tile,
                             unsigned char* to) {
  const int32_t packs = share.size / 8;
  const int32_t pitch = LinearPitch(a.depth);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < Tile::kColumns * packs;
       i += kLinearThreads) {
    const int32_t r = i / packs;
    const int32_t pack = i - r * packs;
    const T* from =
        static_cast<const T*>(a.weight) +
        int64_t{WeightRow<Tile::kColumns>(tile, r, a.columns, a.gated != 0)} * a.weight_stride +
        share.begin;
    CopyAsync16(to + r * pitch + pack * 16, from + pack * 8);
  }
}

template <typename T, typename Tile>
__device__ void StagePlain(const LinearTileArgs& a, const DepthShare& share, int32_t first_row,
                           int32_t count, unsigned char* to) {
  const int32_t packs = share.size / 8;
  const int32_t pitch = LinearPitch(a.depth);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < Tile::kRows * packs; i += kLinearThreads) {
    const int32_t r = i / packs;
    const int32_t pack = i - r * packs;
    const bool valid = first_row + r < count;
    const T* from = RowOf<T>(a.x, valid ? first_row + r : 0) + share.begin;
    CopyAsync16(to + r * pitch + pack * 16, from + pack * 8, valid);
  }
}

// A row of fp32 values in the registers of a warp, four neighbours a lane and step.
inline constexpr int kRowSteps = kMaxNormedWidth / (4 * kWarp);
using NormRow = float[kRowSteps][4];

__device__ inline int32_t ColumnOf(int step) {
  return (step * kWarp + static_cast<int32_t>(threadIdx.x) % kWarp) * 4;
}

__device__ inline void LoadRow(const float* x, int32_t width, NormRow& row) {
#pragma unroll
  for (int s = 0; s < kRowSteps; ++s) {
#pragma unroll
    for (float& value : row[s]) value = 0;
    if (x != nullptr && ColumnOf(s) < width) LoadPack(x + ColumnOf(s), row[s]);
  }
}

// LayerNorm with a bias, else RMSNorm: mean first, then squares, as norm.cu does.
template <typename T>
__device__ void StoreNormed(const LinearTileArgs& a, const NormRow& row, T* to) {
  const auto width = static_cast<float>(a.k);
  float sum = 0;
  if (a.norm_bias != nullptr) {
#pragma unroll
    for (int s = 0; s < kRowSteps; ++s) sum += row[s][0] + row[s][1] + row[s][2] + row[s][3];
  }
  const float mean = WarpSum(sum) / width;
  float squares = 0;
#pragma unroll
  for (int s = 0; s < kRowSteps; ++s) {
    if (ColumnOf(s) >= a.k) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) squares += (row[s][i] - mean) * (row[s][i] - mean);
  }
  const float factor = 1.0f / sqrtf(WarpSum(squares) / width + a.norm_epsilon);
#pragma unroll
  for (int s = 0; s < kRowSteps; ++s) {
    const int32_t c = ColumnOf(s);
    if (c >= a.k) continue;
    float weight[4];
    float bias[4] = {};
    LoadPack(a.norm_weight + c, weight);
    if (a.norm_bias != nullptr) LoadPack(a.norm_bias + c, bias);
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] = (row[s][i] - mean) * factor * weight[i] + bias[i];
    StorePack(y, to + c);
  }
}

// A warp takes kAtOnce rows at a time, so that all their loads are in flight together.
template <typename T, typename Tile>
__device__ void StageNormed(const LinearTileArgs& a, int32_t first_row, int32_t count,
                            unsigned char* to) {
  constexpr int kOfWarp = Tile::kRows / kLinearWarps;
  constexpr int kAtOnce = kOfWarp < 4 ? kOfWarp : 4;
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  for (int first = 0; first < kOfWarp; first += kAtOnce) {
    float rows[kAtOnce][kRowSteps][4];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t r = first_row + (first + i) * kLinearWarps + warp;
      const float* x = nullptr;
      if (r < count) {
        x = RowOf<float>(a.x, a.samples != nullptr ? a.samples[r].token_index : r);
      }
      LoadRow(x, a.k, rows[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t r = (first + i) * kLinearWarps + warp;
      StoreNormed(a, rows[i], reinterpret_cast<T*>(to + r * LinearPitch(a.k)));
    }
  }
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_LINEAR_TILES_INPUT_CUH_
