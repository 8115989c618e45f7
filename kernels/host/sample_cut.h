// Top-k and top-p without sorting: the cut is found by radix selection on the bits of the scores.
#ifndef RALLY_KERNELS_HOST_SAMPLE_CUT_H_
#define RALLY_KERNELS_HOST_SAMPLE_CUT_H_

#include <cstdint>
#include <cstring>
#include <limits>

namespace rally {

// Orders as the floats do (no NaN).
inline uint32_t ScoreKey(float z) {
  uint32_t bits;
  std::memcpy(&bits, &z, sizeof bits);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Kept are the ids whose score has a larger key, and of those with the same key the `ties`
// smallest ids.
struct Cut {
  uint32_t key = 0;
  int32_t ties = std::numeric_limits<int32_t>::max();
};

// The k best scores, and all that equal the last of them (as Hugging Face and vLLM do).
Cut TopKCut(const float* z, int32_t n, int32_t k);

// Of the ids that `within` keeps, the fewest best ones whose probabilities add up to at least
// `top_p` of all kept: the id that crosses the line stays, so at least one does. z <= 0, the best
// is 0.
Cut TopPCut(const float* z, int32_t n, const Cut& within, float top_p);

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_SAMPLE_CUT_H_
