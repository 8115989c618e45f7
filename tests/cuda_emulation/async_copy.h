// Copies from global to shared memory that are under way while their thread goes on.
//
// Both kinds fill their destination with NaN when they are issued, and bring the bytes as late as
// they may: so what is read before the wait, or written into a buffer that is still being read,
// shows as a wrong value.
#ifndef RALLY_TESTS_CUDA_EMULATION_ASYNC_COPY_H_
#define RALLY_TESTS_CUDA_EMULATION_ASYNC_COPY_H_

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

namespace rally::emulation {

struct Block;

// The cp.async copies of one thread: 16 bytes each, in groups.
class AsyncCopies {
 public:
  void Start(void* to, const void* from, bool valid, std::source_location where);
  void Commit() { ++groups_; }
  // All but the newest `pending` groups land.
  void Wait(uint64_t pending) { Land(groups_ > pending ? groups_ - pending : 0); }
  // All land, as at the thread's end.
  void Finish();

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;  // null: zeros
    uint64_t group;         // how many groups are committed before
  };

  void Land(uint64_t groups);

  std::vector<Copy> copies_;
  uint64_t groups_ = 0;
};

// The cp.async.bulk copies of a wave. Each lands at a random later switch of threads and reports to
// its barrier.
class BulkCopies {
 public:
  void Start(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
             std::source_location where);
  bool empty() const { return copies_.empty(); }
  void LandOne();
  bool HasOf(const Block& block) const;

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    uint32_t bytes;
    uint64_t* barrier;
    const Block* block;
  };

  std::vector<Copy> copies_;
};

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_ASYNC_COPY_H_
