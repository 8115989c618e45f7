// The merge loop of byte pair encoding, for every kind of BPE tokenizer here.
#ifndef RALLY_ENGINE_TEXT_BPE_MERGE_H_
#define RALLY_ENGINE_TEXT_BPE_MERGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rally {

// Which two ids may become one, and how early (rank 0 first).
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;
    int32_t id = 0;  // of the merged token
  };

  // A pair that comes twice keeps its last rank, as in `tokenizers`.
  void Set(int32_t left, int32_t right, Merge merge) { merges_[Key(left, right)] = merge; }
  // Null: the two never merge.
  const Merge* Find(int32_t left, int32_t right) const;

 private:
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

// A piece that two others make up by joining their bytes, with its rank.
struct RankedPiece {
  std::string bytes;
  int32_t id = 0;
  uint32_t rank = 0;
};

// The merges of vocabularies that rank pieces instead of pairs (tiktoken ranks, SentencePiece
// scores): any two pieces merge whose joined bytes are a piece, with the rank of that piece.
MergeTable MergesOfRankedPieces(std::span<const RankedPiece> pieces);

// Joins neighbours in `symbols` until none of `merges` fits: the lowest rank first, the leftmost
// of equals first; appends what is left to `ids`. O(n log n): sorted candidates over a linked
// list (Zouhar et al., "A Formal Perspective on Byte-Pair Encoding", 2023, section 4). Keeps its
// scratch memory between calls; one thread at a time.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}
  // At most 2^31 - 1 symbols.
  void Append(std::span<const int32_t> symbols, std::vector<int32_t>& ids);

 private:
  struct Node {
    int32_t id;  // -1: merged into the node on its left
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint64_t order;  // rank << 32 | position of the left node: the smallest comes first
    int32_t id;      // of the merged token
    bool operator>(const Candidate& other) const { return order > other.order; }
  };

  bool MakeCandidate(int32_t left, Candidate* candidate) const;
  void Push(int32_t left);
  void Apply(const Candidate& candidate);

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  std::vector<Candidate> first_;  // the neighbours in the text as it came, sorted
  std::vector<Candidate> heap_;   // those that merges made
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_BPE_MERGE_H_
