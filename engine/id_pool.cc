#include "engine/id_pool.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/plant.h"

namespace rally {

IdPool::IdPool(int32_t first, int32_t count, int32_t limit) : first_(first) {
  free_.reserve(std::max(count, limit));
  releasing_.reserve(std::max(count, limit));
  GrowTo(count);
}

void IdPool::GrowTo(int32_t count) {
  for (int32_t i = count - 1; i >= total_; --i) free_.push_back(first_ + i);
  total_ = std::max(total_, count);
}

int32_t IdPool::Take() {
  RALLY_CHECK(!free_.empty());
  const int32_t id = free_.back();
  free_.pop_back();
  ++held_;
  return id;
}

void IdPool::Release(int32_t id, uint64_t last_step) {
  RALLY_CHECK(id >= first_ && id < first_ + total_ && held_ > 0);
  --held_;
  if (last_step <= completed_step_ || RALLY_PLANT(RELEASED_IN_FLIGHT)) {
    free_.push_back(id);
  } else {
    releasing_.push_back({last_step, id});
  }
}

void IdPool::Complete(uint64_t step) {
  completed_step_ = step;
  size_t kept = 0;
  for (const Releasing& r : releasing_) {
    if (r.last_step <= step) {
      free_.push_back(r.id);
    } else {
      releasing_[kept++] = r;
    }
  }
  releasing_.resize(kept);
}

bool IdPool::IsFree(int32_t id) const {
  return std::find(free_.begin(), free_.end(), id) != free_.end();
}

bool IdPool::Consistent() const {
  std::vector<bool> seen(total_);
  const auto mark = [&](int32_t id) {
    const int32_t i = id - first_;
    if (i < 0 || i >= total_ || seen[i]) return false;
    seen[i] = true;
    return true;
  };
  for (int32_t id : free_) {
    if (!mark(id)) return false;
  }
  for (const Releasing& r : releasing_) {
    if (!mark(r.id)) return false;
  }
  return free() + releasing() + held() == total();
}

}  // namespace rally
