// The lanes run along the head: for decode, where a tile has one token's few heads.
#include "kernels/host/attention_keys.h"

namespace rally {
namespace {

constexpr int32_t kMaxFew = 8;
constexpr int32_t kStep = 4;

struct Scratch {
  alignas(64) float queries[kMaxFew * kMaxHeadDim];  // (queries, dh), scaled, padded with zeros
  alignas(64) float sums[kMaxFew * kMaxHeadDim];     // (queries, dh)
  alignas(64) float tile[kTileKeys * kMaxHeadDim];   // (keys, dh): K, then V
  alignas(64) float scores[kMaxFew * kTileKeys];     // (queries, keys), then probabilities
  float max[kMaxFew];
  float total[kMaxFew];
  float shrink[kMaxFew];
};

// kStep keys at once: as many sums run side by side, and the query is loaded once for all.
RALLY_INLINE void Scores(Scratch& s, int32_t q, int32_t stride, int32_t keys) {
  const float* query = s.queries + q * stride;
  float* scores = s.scores + q * kTileKeys;
  for (int32_t j = 0; j < keys; j += kStep) {
    const float* key = s.tile + j * stride;
    V16 sums[kStep] = {};
    for (int32_t d = 0; d < stride; d += kLanes) {
      V16 x;
      Load(query + d, &x);
#pragma GCC unroll 4
      for (int m = 0; m < kStep; ++m) {
        V16 y;
        Load(key + m * stride + d, &y);
        sums[m] += x * y;
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < kStep; ++m) scores[j + m] = Sum(sums[m]);
  }
  // What was computed beyond the last key is dropped, and the last vector is filled up.
  std::fill(scores + keys, scores + (keys + kLanes - 1) / kLanes * kLanes, kMasked);
}

RALLY_INLINE void Softmax(Scratch& s, int32_t q, int32_t keys) {
  float* scores = s.scores + q * kTileKeys;
  V16 largest = V16{} + s.max[q];
  for (int32_t j = 0; j < keys; j += kLanes) {
    V16 score;
    Load(scores + j, &score);
    largest = Max(largest, score);
  }
  float max = s.max[q];
  for (int i = 0; i < kLanes; ++i) max = std::max(max, largest[i]);
  V16 total{};
  for (int32_t j = 0; j < keys; j += kLanes) {
    V16 score;
    Load(scores + j, &score);
    const V16 p = Exp(score - max);
    total += p;
    Store(p, scores + j);
  }
  s.shrink[q] = Exp(V16{} + (s.max[q] - max))[0];
  s.total[q] = s.total[q] * s.shrink[q] + Sum(total);
  s.max[q] = max;
}

// kCount vectors of the output of one query, from column d on.
template <int kCount>
RALLY_INLINE void AddColumns(Scratch& s, int32_t q, int32_t d, int32_t stride, int32_t keys) {
  float* out = s.sums + q * stride + d;
  const float* probability = s.scores + q * kTileKeys;
  const float* value = s.tile + d;
  V16 sums[kCount];
#pragma GCC unroll 4
  for (int m = 0; m < kCount; ++m) {
    Load(out + m * kLanes, &sums[m]);
    sums[m] *= s.shrink[q];
  }
  for (int32_t j = 0; j < keys; ++j, value += stride) {
#pragma GCC unroll 4
    for (int m = 0; m < kCount; ++m) {
      V16 v;
      Load(value + m * kLanes, &v);
      sums[m] += v * probability[j];
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < kCount; ++m) Store(sums[m], out + m * kLanes);
}

RALLY_INLINE void AddValues(Scratch& s, int32_t q, int32_t stride, int32_t keys) {
  int32_t d = 0;
  for (; d + kStep * kLanes <= stride; d += kStep * kLanes) {
    AddColumns<kStep>(s, q, d, stride, keys);
  }
  for (; d < stride; d += kLanes) AddColumns<1>(s, q, d, stride, keys);
}

// Scores are computed for kStep keys at once: those beyond the last one are zeros.
RALLY_INLINE void ClearRest(Scratch& s, int32_t stride, int32_t keys) {
  const int32_t padded = (keys + kStep - 1) / kStep * kStep;
  std::fill(s.tile + keys * stride, s.tile + padded * stride, 0.0f);
}

// A query that does not see the whole tile [begin, begin + keys): several tokens share the item.
RALLY_INLINE void Mask(const AttentionArgs& a, Scratch& s, int32_t q, int32_t position,
                       int32_t begin, int32_t keys) {
  for (int32_t j = 0; j < keys; ++j) {
    const int32_t key = begin + j;
    if (key > position || key < FirstVisible(a, position)) s.scores[q * kTileKeys + j] = kMasked;
  }
}

}  // namespace

RALLY_SIMD_CLONES void AttendFewQueries(const AttentionArgs& a, const AttentionItem& item) {
  Scratch s;
  const int32_t dh = a.kv.head_dim;
  const int32_t stride = PaddedDim(dh);
  const int32_t queries = item.tokens * item.heads;
  std::memset(s.queries, 0, sizeof(float) * static_cast<size_t>(queries * stride));
  std::memset(s.sums, 0, sizeof(float) * static_cast<size_t>(queries * stride));
  std::fill_n(s.max, queries, kNoMax);
  std::fill_n(s.total, queries, 0.0f);
  ForEachQueryAnyType(a, item, [&](int32_t q, const auto* in, auto*) {
    for (int32_t d = 0; d < dh; ++d) s.queries[q * stride + d] = ToFloat(in[d]) * a.scale;
  });

  const int32_t last = item.first_position + item.tokens - 1;
  for (int32_t begin = FirstVisible(a, item.first_position); begin <= last; begin += kTileKeys) {
    const int32_t keys = std::min(kTileKeys, last + 1 - begin);
    LoadTile(a, item, KvSide::kKey, begin, keys, s.tile);
    ClearRest(s, stride, keys);
    for (int32_t q = 0; q < queries; ++q) {
      Scores(s, q, stride, keys);
      if (item.tokens > 1) Mask(a, s, q, item.first_position + q / item.heads, begin, keys);
      Softmax(s, q, keys);
    }
    LoadTile(a, item, KvSide::kValue, begin, keys, s.tile);
    for (int32_t q = 0; q < queries; ++q) AddValues(s, q, stride, keys);
  }

  ForEachQueryAnyType(a, item, [&](int32_t q, const auto*, auto* out) {
    using T = std::remove_reference_t<decltype(*out)>;
    const float factor = 1.0f / s.total[q];
    for (int32_t d = 0; d < dh; ++d) out[d] = FromFloat<T>(s.sums[q * stride + d] * factor);
  });
}

}  // namespace rally
