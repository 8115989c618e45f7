#include "engine/text/bpe_merge.h"

#include <algorithm>
#include <functional>

#include "absl/strings/string_view.h"

namespace rally {

const MergeTable::Merge* MergeTable::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

MergeTable MergesOfRankedPieces(std::span<const RankedPiece> pieces) {
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (const RankedPiece& piece : pieces) ids.emplace(piece.bytes, piece.id);
  MergeTable merges;
  for (const RankedPiece& piece : pieces) {
    const absl::string_view bytes = piece.bytes;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ids.find(bytes.substr(0, cut));
      const auto right = ids.find(bytes.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.Set(left->second, right->second, {piece.rank, piece.id});
    }
  }
  return merges;
}

void BpeMerger::Append(std::span<const int32_t> symbols, std::vector<int32_t>& ids) {
  const int32_t count = static_cast<int32_t>(symbols.size());
  nodes_.clear();
  first_.clear();
  for (int32_t i = 0; i < count; ++i) {
    nodes_.push_back({symbols[i], i - 1, i + 1 < count ? i + 1 : -1});
  }
  Candidate candidate;
  for (int32_t i = 0; i < count; ++i) {
    if (MakeCandidate(i, &candidate)) first_.push_back(candidate);
  }
  std::sort(first_.begin(), first_.end(), [](const auto& a, const auto& b) { return b > a; });
  auto next_first = first_.begin();
  while (next_first != first_.end() || !heap_.empty()) {
    if (heap_.empty() || (next_first != first_.end() && heap_.front() > *next_first)) {
      Apply(*next_first++);
      continue;
    }
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    candidate = heap_.back();
    heap_.pop_back();
    Apply(candidate);
  }
  for (int32_t i = count == 0 ? -1 : 0; i >= 0; i = nodes_[i].next) ids.push_back(nodes_[i].id);
}

bool BpeMerger::MakeCandidate(int32_t left, Candidate* candidate) const {
  const int32_t right = nodes_[left].next;
  if (right < 0) return false;
  const MergeTable::Merge* merge = merges_.Find(nodes_[left].id, nodes_[right].id);
  if (merge == nullptr) return false;
  *candidate = {uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left), merge->id};
  return true;
}

void BpeMerger::Push(int32_t left) {
  Candidate candidate;
  if (!MakeCandidate(left, &candidate)) return;
  heap_.push_back(candidate);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

// A candidate is out of date when its nodes have changed since. As in `tokenizers` and
// SentencePiece, it still holds if the changed nodes would merge into the same token.
void BpeMerger::Apply(const Candidate& candidate) {
  const int32_t position = static_cast<int32_t>(candidate.order & UINT32_MAX);
  Node& left = nodes_[position];
  if (left.id < 0 || left.next < 0) return;
  Node& right = nodes_[left.next];
  const MergeTable::Merge* merge = merges_.Find(left.id, right.id);
  if (merge == nullptr || merge->id != candidate.id) return;
  left.id = candidate.id;
  left.next = right.next;
  right.id = -1;
  if (left.next >= 0) nodes_[left.next].previous = position;
  if (left.previous >= 0) Push(left.previous);
  Push(position);
}

}  // namespace rally
