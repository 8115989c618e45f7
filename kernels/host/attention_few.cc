// The lanes run along the head: for decode, where a tile has one token's few heads.
#include "kernels/host/attention_keys.h"

namespace rally {
namespace {

constexpr int32_t kMaxFew = 8;

struct Scratch {
  alignas(64) float queries[kMaxFew * kMaxHeadDim];  // (queries, dh), scaled, padded with zeros
  alignas(64) float sums[kMaxFew * kMaxHeadDim];     // (queries, dh)
  alignas(64) float tile[kTileKeys * kMaxHeadDim];   // (keys, dh): K, then V
  alignas(64) float scores[kMaxFew * kTileKeys];     // (queries, keys), then probabilities
  float max[kMaxFew];
  float total[kMaxFew];
  float shrink[kMaxFew];
};

RALLY_INLINE void Scores(Scratch& s, int32_t q, int32_t stride, int32_t keys) {
  const float* query = s.queries + q * stride;
  for (int32_t j = 0; j < keys; ++j) {
    V16 sum{};
    for (int32_t d = 0; d < stride; d += kLanes) {
      V16 x, y;
      Load(query + d, &x);
      Load(s.tile + j * stride + d, &y);
      sum += x * y;
    }
    s.scores[q * kTileKeys + j] = Sum(sum);
  }
  // The last vector of scores is filled up, so that Softmax needs no tail.
  for (int32_t j = keys; j % kLanes != 0; ++j) s.scores[q * kTileKeys + j] = kMasked;
}

RALLY_INLINE void Softmax(Scratch& s, int32_t q, int32_t keys) {
  float* scores = s.scores + q * kTileKeys;
  float max = s.max[q];
  for (int32_t j = 0; j < keys; ++j) max = std::max(max, scores[j]);
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

RALLY_INLINE void AddValues(Scratch& s, int32_t q, int32_t stride, int32_t keys) {
  for (int32_t d = 0; d < stride; d += kLanes) {
    V16 sum;
    Load(s.sums + q * stride + d, &sum);
    sum *= s.shrink[q];
    for (int32_t j = 0; j < keys; ++j) {
      V16 value;
      Load(s.tile + j * stride + d, &value);
      sum += value * s.scores[q * kTileKeys + j];
    }
    Store(sum, s.sums + q * stride + d);
  }
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
