// The dynamic shared memory of the blocks of a wave.
//
// Each block's lies between guard bytes that are checked when the block ends. It starts as NaN in
// every type, and is aligned to 128 bytes and no more.
#ifndef RALLY_TESTS_CUDA_EMULATION_SHARED_MEMORY_H_
#define RALLY_TESTS_CUDA_EMULATION_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rally::emulation {

// What nobody has written yet: a NaN in fp32, bf16 and fp16.
constexpr unsigned char kPoison = 0xff;
constexpr size_t kMaxSharedBytes = size_t{227} << 10;

struct SharedRegion {
  std::byte* data = nullptr;
  size_t bytes = 0;

  bool Holds(const void* p, size_t count) const {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= begin && count <= bytes && at - begin <= bytes - count;
  }
};

class SharedMemory {
 public:
  // Room for `blocks` regions of `bytes`; earlier ones are gone.
  void Divide(size_t blocks, size_t bytes);
  // Region b, with guards and poison anew.
  SharedRegion Region(size_t b);

 private:
  std::vector<std::byte> memory_;
  size_t bytes_ = 0;
  size_t pitch_ = 0;
};

// False where somebody wrote before or after the region.
bool GuardsAreIntact(const SharedRegion& region);
void Poison(const SharedRegion& region);

// A __shared__ variable: those are static.
bool IsStatic(const void* p);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_SHARED_MEMORY_H_
