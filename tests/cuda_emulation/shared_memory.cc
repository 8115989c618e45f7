#include "tests/cuda_emulation/shared_memory.h"

#include <algorithm>
#include <cstring>

// The linker's names for the begin and the end of the program's variables.
extern "C" char __data_start;
extern "C" char _end;

namespace rally::emulation {
namespace {

constexpr size_t kAlignment = 128;
constexpr size_t kPitchAlignment = 1024;
constexpr size_t kGuardBefore = kAlignment;
constexpr size_t kGuardAfter = 4096;
constexpr auto kGuard = std::byte{0xfe};  // a NaN too, but not the poison

// Each byte equals the next one, and the first is right.
bool IsGuard(const std::byte* begin, size_t bytes) {
  return *begin == kGuard && std::memcmp(begin, begin + 1, bytes - 1) == 0;
}

}  // namespace

void SharedMemory::Divide(size_t blocks, size_t bytes) {
  bytes_ = bytes;
  pitch_ = (kGuardBefore + bytes + kGuardAfter + kPitchAlignment - 1) / kPitchAlignment *
           kPitchAlignment;
  memory_.resize(std::max(memory_.size(), blocks * pitch_ + kPitchAlignment));
}

SharedRegion SharedMemory::Region(size_t b) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  const size_t to_aligned = (kPitchAlignment - address % kPitchAlignment) % kPitchAlignment;
  const SharedRegion region = {memory_.data() + to_aligned + b * pitch_ + kGuardBefore, bytes_};
  std::fill_n(region.data - kGuardBefore, kGuardBefore, kGuard);
  std::fill_n(region.data + bytes_, kGuardAfter, kGuard);
  Poison(region);
  return region;
}

bool GuardsAreIntact(const SharedRegion& region) {
  return IsGuard(region.data - kGuardBefore, kGuardBefore) &&
         IsGuard(region.data + region.bytes, kGuardAfter);
}

void Poison(const SharedRegion& region) { std::memset(region.data, kPoison, region.bytes); }

bool IsStatic(const void* p) { return p >= &__data_start && p < &_end; }

}  // namespace rally::emulation
