// Queries are the vector lanes: every matrix here is (what is summed over or stored) x queries.
#include "kernels/host/attention_keys.h"

namespace rally {
namespace {

constexpr int32_t kStep = 4;  // rows of one register tile; head_dim and kTileKeys are multiples

struct Scratch {
  alignas(64) float queries[kMaxHeadDim * kMaxQueries];  // (dh, queries), scaled
  alignas(64) float sums[kMaxHeadDim * kMaxQueries];     // (dh, queries)
  alignas(64) float tile[kTileKeys * kMaxHeadDim];       // (keys, dh): K, then V
  alignas(64) float scores[kTileKeys * kMaxQueries];     // (keys, queries), then probabilities
  alignas(64) float max[kMaxQueries];
  alignas(64) float total[kMaxQueries];
  alignas(64) int32_t position[kMaxQueries];
};

// acc[m][z] += a[m * a_row + i * a_col] * b[i][z lanes], i < depth: kStep rows x kVectors vectors.
template <int kVectors>
RALLY_INLINE void Multiply(const float* a, int32_t a_row, int32_t a_col, const float* b,
                           int32_t depth, V16 (&acc)[kStep][kVectors]) {
  for (int32_t i = 0; i < depth; ++i, b += kMaxQueries) {
    V16 row[kVectors];
#pragma GCC unroll 4
    for (int z = 0; z < kVectors; ++z) Load(b + z * kLanes, &row[z]);
#pragma GCC unroll 4
    for (int m = 0; m < kStep; ++m) {
      const float factor = a[m * a_row + i * a_col];
#pragma GCC unroll 4
      for (int z = 0; z < kVectors; ++z) acc[m][z] += row[z] * factor;
    }
  }
}

template <int kVectors>
RALLY_INLINE void Scores(Scratch& s, int32_t dh, int32_t stride, int32_t keys) {
  for (int32_t j = 0; j < keys; j += kStep) {
    V16 acc[kStep][kVectors] = {};
    Multiply<kVectors>(s.tile + j * stride, stride, 1, s.queries, dh, acc);
#pragma GCC unroll 4
    for (int m = 0; m < kStep; ++m) {
#pragma GCC unroll 4
      for (int z = 0; z < kVectors; ++z) {
        Store(acc[m][z], s.scores + (j + m) * kMaxQueries + z * kLanes);
      }
    }
  }
}

// Sets what a query must not see to -Inf: later positions, and those before its window.
template <int kVectors>
RALLY_INLINE void Mask(Scratch& s, int32_t begin, int32_t keys, int32_t window) {
  for (int z = 0; z < kVectors; ++z) {
    V16i position;
    std::memcpy(&position, s.position + z * kLanes, sizeof position);
    for (int32_t j = 0; j < keys; ++j) {
      float* p = s.scores + j * kMaxQueries + z * kLanes;
      V16 score;
      Load(p, &score);
      const V16i key = V16i{} + (begin + j);
      const V16i before = window > 0 ? key <= position - window : V16i{};
      Store((key > position) | before ? V16{} + kMasked : score, p);
    }
  }
}

// Scores become probabilities relative to the new maximum; returns the factor for older sums.
template <int kVectors>
RALLY_INLINE void Softmax(Scratch& s, int32_t keys, V16 (&shrink)[kVectors]) {
  for (int z = 0; z < kVectors; ++z) {
    V16 old_max, total;
    Load(s.max + z * kLanes, &old_max);
    Load(s.total + z * kLanes, &total);
    float* column = s.scores + z * kLanes;
    V16 max = old_max;
    for (int32_t j = 0; j < keys; ++j) {
      V16 score;
      Load(column + j * kMaxQueries, &score);
      max = Max(max, score);
    }
    shrink[z] = Exp(old_max - max);
    total *= shrink[z];
    for (int32_t j = 0; j < keys; ++j) {
      V16 score;
      Load(column + j * kMaxQueries, &score);
      const V16 p = Exp(score - max);
      total += p;
      Store(p, column + j * kMaxQueries);
    }
    Store(max, s.max + z * kLanes);
    Store(total, s.total + z * kLanes);
  }
}

template <int kVectors>
RALLY_INLINE void AddValues(Scratch& s, int32_t dh, int32_t stride, int32_t keys,
                            const V16 (&shrink)[kVectors]) {
  for (int32_t d = 0; d < dh; d += kStep) {
    V16 acc[kStep][kVectors];
#pragma GCC unroll 4
    for (int m = 0; m < kStep; ++m) {
#pragma GCC unroll 4
      for (int z = 0; z < kVectors; ++z) {
        Load(s.sums + (d + m) * kMaxQueries + z * kLanes, &acc[m][z]);
        acc[m][z] *= shrink[z];
      }
    }
    Multiply<kVectors>(s.tile + d, 1, stride, s.scores, keys, acc);
#pragma GCC unroll 4
    for (int m = 0; m < kStep; ++m) {
#pragma GCC unroll 4
      for (int z = 0; z < kVectors; ++z) {
        Store(acc[m][z], s.sums + (d + m) * kMaxQueries + z * kLanes);
      }
    }
  }
}

RALLY_INLINE void Prepare(const AttentionArgs& a, const AttentionItem& item, Scratch& s) {
  const int32_t dh = a.kv.head_dim;
  std::memset(s.queries, 0, sizeof(float) * static_cast<size_t>(dh * kMaxQueries));
  std::memset(s.sums, 0, sizeof(float) * static_cast<size_t>(dh * kMaxQueries));
  for (int32_t q = 0; q < kMaxQueries; ++q) {
    s.max[q] = kNoMax;
    s.total[q] = 0;
    // Lanes without a query see what the last one sees; nobody reads them.
    s.position[q] = item.first_position + std::min(q / item.heads, item.tokens - 1);
  }
  ForEachQueryAnyType(a, item, [&](int32_t q, const auto* in, auto*) {
    for (int32_t d = 0; d < dh; ++d) s.queries[d * kMaxQueries + q] = ToFloat(in[d]) * a.scale;
  });
}

RALLY_INLINE void Finish(const AttentionArgs& a, const AttentionItem& item, const Scratch& s) {
  ForEachQueryAnyType(a, item, [&](int32_t q, const auto*, auto* out) {
    using T = std::remove_reference_t<decltype(*out)>;
    const float factor = 1.0f / s.total[q];
    for (int32_t d = 0; d < a.kv.head_dim; ++d) {
      out[d] = FromFloat<T>(s.sums[d * kMaxQueries + q] * factor);
    }
  });
}

template <int kVectors>
RALLY_INLINE void Attend(const AttentionArgs& a, const AttentionItem& item) {
  Scratch s;
  Prepare(a, item, s);
  const int32_t dh = a.kv.head_dim;
  const int32_t stride = PaddedDim(dh);
  const int32_t last = item.first_position + item.tokens - 1;
  for (int32_t begin = FirstVisible(a, item.first_position); begin <= last; begin += kTileKeys) {
    const int32_t keys = std::min(kTileKeys, last + 1 - begin);
    const int32_t padded = (keys + kStep - 1) / kStep * kStep;
    LoadTile(a, item, KvSide::kKey, begin, keys, s.tile);
    std::memset(s.tile + keys * stride, 0,
                sizeof(float) * static_cast<size_t>((padded - keys) * stride));
    Scores<kVectors>(s, dh, stride, padded);
    const bool all_visible =
        begin + keys - 1 <= item.first_position && begin >= FirstVisible(a, last);
    if (!all_visible) Mask<kVectors>(s, begin, keys, a.window);
    V16 shrink[kVectors];
    Softmax<kVectors>(s, keys, shrink);
    LoadTile(a, item, KvSide::kValue, begin, keys, s.tile);
    AddValues<kVectors>(s, dh, stride, keys, shrink);
  }
  Finish(a, item, s);
}

}  // namespace

RALLY_SIMD_CLONES void AttendManyQueries(const AttentionArgs& a, const AttentionItem& item) {
  if (item.tokens * item.heads <= kLanes) {
    Attend<1>(a, item);
  } else {
    Attend<kMaxQueries / kLanes>(a, item);
  }
}

}  // namespace rally
