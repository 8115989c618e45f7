#include "kernels/host/panel_matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rally {

void PackPanel(const float* rows, int32_t count, int32_t k, DType dtype, void* panel) {
  if (dtype == DType::kF32) {
    auto* out = static_cast<float*>(panel);
    for (int32_t i = 0; i < k; ++i) {
      for (int32_t c = 0; c < count; ++c)
        out[int64_t{i} * kPanelCols + c] = rows[int64_t{c} * k + i];
    }
    return;
  }
  auto* out = static_cast<BFloat16*>(panel);
  for (int32_t i = 0; i < k; ++i) {
    BFloat16* pair = out + (int64_t{i} / 2 * kPanelCols) * 2 + i % 2;
    for (int32_t c = 0; c < count; ++c) pair[c * 2] = FromFloat<BFloat16>(rows[int64_t{c} * k + i]);
  }
}

#ifdef __x86_64__
#define RALLY_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define RALLY_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace {

// Columns [first, first + kVectors * 16) of kRows rows, from x row `row` on.
struct Tile {
  int32_t row;
  int32_t first;
};

// Adds bias and the old value, and stores the columns that exist.
template <int kRows, int kVectors>
RALLY_AVX512 inline void StoreTile(const PanelMatmulArgs& a, const Tile& tile,
                                   const __m512 (&acc)[kRows][kVectors]) {
  for (int v = 0; v < kVectors; ++v) {
    const int32_t col = tile.first + v * kLanes;
    const int32_t left = a.n - col;
    if (left <= 0) return;
    const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1u << left) - 1);
    const __m512 bias =
        a.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, a.bias + col);
    for (int r = 0; r < kRows; ++r) {
      __m512 y = _mm512_add_ps(acc[r][v], bias);
      if (a.out.dtype == DType::kF32) {
        float* out = a.out.row<float>(tile.row + r) + col;
        if (a.accumulate) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, out));
        _mm512_mask_storeu_ps(out, mask, y);
      } else {
        V16 lanes;
        std::memcpy(&lanes, &y, sizeof lanes);
        BFloat16 rounded[kLanes];
        Store(lanes, rounded);
        __m256i half;
        std::memcpy(&half, rounded, sizeof half);
        _mm256_mask_storeu_epi16(a.out.row<BFloat16>(tile.row + r) + col, mask, half);
      }
    }
  }
}

template <int kRows, int kVectors>
RALLY_AVX512_BF16 void TileBf16(const PanelMatmulArgs& a, const Tile& tile) {
  const auto* w = static_cast<const BFloat16*>(a.panels) +
                  tile.first / kPanelCols * kPanelCols * PanelDepth(a.k, DType::kBF16) +
                  tile.first % kPanelCols * 2;
  const BFloat16* x[kRows];
  __m512 acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    x[r] = a.x.row<BFloat16>(tile.row + r);
    for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int32_t i = 0; i < a.k; i += 2, w += kPanelCols * 2) {
    __m512bh weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = (__m512bh)_mm512_loadu_si512(w + v * kLanes * 2);
    }
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, x[r] + i, sizeof pair);
      const auto xs = (__m512bh)_mm512_set1_epi32(pair);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], weights[v], xs);
    }
  }
  StoreTile<kRows, kVectors>(a, tile, acc);
}

template <int kRows, int kVectors>
RALLY_AVX512 void TileF32(const PanelMatmulArgs& a, const Tile& tile) {
  const auto* w = static_cast<const float*>(a.panels) +
                  tile.first / kPanelCols * kPanelCols * PanelDepth(a.k, DType::kF32) +
                  tile.first % kPanelCols;
  const float* x[kRows];
  __m512 acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    x[r] = a.x.row<float>(tile.row + r);
    for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_setzero_ps();
  }
  for (int32_t i = 0; i < a.k; ++i, w += kPanelCols) {
    __m512 weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_ps(w + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const __m512 xs = _mm512_set1_ps(x[r][i]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_fmadd_ps(weights[v], xs, acc[r][v]);
    }
  }
  StoreTile<kRows, kVectors>(a, tile, acc);
}

template <int kRows, int kVectors>
void RunTile(const PanelMatmulArgs& a, const Tile& tile) {
  if (a.x.dtype == DType::kBF16) {
    TileBf16<kRows, kVectors>(a, tile);
  } else {
    TileF32<kRows, kVectors>(a, tile);
  }
}

constexpr int kTileRows = 6;  // 6 x 4 sums, 4 weights and a value of x: 29 of the 32 registers

// All rows of kVectors * 16 columns: the weight comes from memory for the first tile and from the
// L2 cache for the others.
template <int kVectors>
void RunColumns(const PanelMatmulArgs& a, int32_t first) {
  Tile tile{0, first};
  for (; a.rows - tile.row >= kTileRows; tile.row += kTileRows) {
    RunTile<kTileRows, kVectors>(a, tile);
  }
  switch (a.rows - tile.row) {
    case 1:
      return RunTile<1, kVectors>(a, tile);
    case 2:
      return RunTile<2, kVectors>(a, tile);
    case 3:
      return RunTile<3, kVectors>(a, tile);
    case 4:
      return RunTile<4, kVectors>(a, tile);
    case 5:
      return RunTile<5, kVectors>(a, tile);
    default:
      return;
  }
}

}  // namespace

void PanelMatmul(const PanelMatmulArgs& a) {
  // Half panels are dealt out, so that a narrow weight spreads evenly too.
  const int64_t halves = PanelCount(a.n) * 2;
  const int64_t threads = ParallelThreads();
  ParallelFor(threads, int64_t{a.n} * a.k, [&](int64_t t) {
    const int64_t end = halves * (t + 1) / threads;
    for (int64_t half = halves * t / threads; half < end;) {
      const auto first = static_cast<int32_t>(half * (kPanelCols / 2));
      if (half % 2 == 0 && half + 1 < end) {
        RunColumns<4>(a, first);
        half += 2;
      } else {
        RunColumns<2>(a, first);
        half += 1;
      }
    }
  });
}

#else

void PanelMatmul(const PanelMatmulArgs&) {}

#endif

}  // namespace rally
