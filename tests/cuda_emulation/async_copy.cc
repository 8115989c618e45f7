#include "tests/cuda_emulation/async_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/shared_barrier.h"
#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {
namespace {

constexpr size_t kAlignment = 16;

bool IsAligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

void CheckAddresses(const void* to, const void* from, size_t bytes, std::source_location where) {
  if (!IsAligned(to)) Fail("an asynchronous copy to an address that is not aligned to 16", where);
  if (!IsAligned(from)) {
    Fail("an asynchronous copy from an address that is not aligned to 16", where);
  }
  if (!CurrentBlock().shared.Holds(to, bytes) && !IsStatic(to)) {
    Fail("an asynchronous copy to what is not the block's shared memory", where);
  }
}

}  // namespace

void AsyncCopies::Start(void* to, const void* from, bool valid, std::source_location where) {
  CheckAddresses(to, from, kAlignment, where);
  std::memset(to, kPoison, kAlignment);
  copies_.push_back({static_cast<std::byte*>(to),
                     valid ? static_cast<const std::byte*>(from) : nullptr, groups_});
}

void AsyncCopies::Finish() {
  Land(groups_ + 1);
  groups_ = 0;
}

// Of the first `groups` groups.
void AsyncCopies::Land(uint64_t groups) {
  const auto end = std::find_if(copies_.begin(), copies_.end(),
                                [&](const Copy& copy) { return copy.group >= groups; });
  for (auto copy = copies_.begin(); copy != end; ++copy) {
    if (copy->from == nullptr) {
      std::memset(copy->to, 0, kAlignment);
    } else {
      std::memcpy(copy->to, copy->from, kAlignment);
    }
  }
  copies_.erase(copies_.begin(), end);
}

void BulkCopies::Start(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                       std::source_location where) {
  CheckAddresses(to, from, bytes, where);
  if (bytes == 0 || bytes % kAlignment != 0) {
    Fail(absl::StrCat("a bulk copy of ", bytes, " bytes, no multiple of 16"), where);
  }
  CheckBarrier(barrier, where);
  std::memset(to, kPoison, bytes);
  copies_.push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
                     barrier, &CurrentBlock()});
  Wave::Current().NoteProgress();
}

void BulkCopies::LandOne() {
  const auto chosen = Wave::Current().random().Below(static_cast<uint32_t>(copies_.size()));
  std::swap(copies_[chosen], copies_.back());
  const Copy copy = copies_.back();
  copies_.pop_back();
  std::memcpy(copy.to, copy.from, copy.bytes);
  CompleteBytes(copy.barrier, copy.bytes);
}

bool BulkCopies::HasOf(const Block& block) const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [&](const Copy& copy) { return copy.block == &block; });
}

}  // namespace rally::emulation
