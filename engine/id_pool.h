// A fixed set of ids (KV blocks, sequence slots) whose release waits for the device.
//
// An id is *free*, *held* by one owner, or *releasing*: given back, but a launched step still names
// it (rule 3). Releasing ids become free when that step has completed. free + held + releasing =
// total, always. Engine thread only.
#ifndef RALLY_ENGINE_ID_POOL_H_
#define RALLY_ENGINE_ID_POOL_H_

#include <cstdint>
#include <vector>

namespace rally {

class IdPool {
 public:
  // Ids first, first + 1, ..., first + count - 1. Growing to `limit` ids allocates nothing.
  IdPool(int32_t first, int32_t count, int32_t limit = 0);

  int32_t total() const { return total_; }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t releasing() const { return static_cast<int32_t>(releasing_.size()); }
  int32_t held() const { return held_; }

  // The next ids become free, so that there are `count`.
  void GrowTo(int32_t count);
  // Needs free() > 0.
  int32_t Take();
  // `last_step` is the newest launched step that names the id, 0 if none does.
  void Release(int32_t id, uint64_t last_step);
  // All steps up to `step` have completed: what waited for them is free.
  void Complete(uint64_t step);

  // For tests, both O(total).
  bool IsFree(int32_t id) const;
  // True when the books balance and no id is in two places.
  bool Consistent() const;

 private:
  struct Releasing {
    uint64_t last_step;
    int32_t id;
  };

  const int32_t first_;
  int32_t total_ = 0;
  int32_t held_ = 0;
  uint64_t completed_step_ = 0;
  std::vector<int32_t> free_;         // a stack: the id released last is warm in the caches
  std::vector<Releasing> releasing_;  // unordered, short
};

}  // namespace rally

#endif  // RALLY_ENGINE_ID_POOL_H_
