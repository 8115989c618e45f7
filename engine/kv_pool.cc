#include "engine/kv_pool.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/plant.h"
#include "engine/base/status_macros.h"
#include "kernels/step_record.h"

namespace rally {

absl::StatusOr<std::unique_ptr<KvPool>> KvPool::Create(Device* device, const Options& options) {
  std::unique_ptr<KvPool> pool(new KvPool(device, options));
  const bool fixed = options.kind == KvPoolKind::kFixed;
  // The null block and one more, so that a growing pool begins with something to give.
  const int32_t blocks = fixed ? options.max_blocks : std::min(kNullBlock + 2, options.max_blocks);
  const size_t bytes = pool->Bytes(blocks);
  if (options.kind == KvPoolKind::kMapped) {
    RALLY_ASSIGN_OR_RETURN(pool->buffer_, device->Reserve(bytes, pool->Bytes(options.max_blocks)));
  } else {
    RALLY_ASSIGN_OR_RETURN(pool->buffer_, device->Allocate(Space::kDevice, bytes));
  }
  pool->SetBlocks(blocks);
  return pool;
}

absl::Status KvPool::Grow(int32_t blocks, const Place& place) {
  RALLY_CHECK(blocks <= options_.max_blocks);
  if (blocks <= blocks_) return absl::OkStatus();
  if (options_.kind == KvPoolKind::kReallocated) {
    // Half again at least, so that a block is moved a few times in all and not at every join.
    return Move(std::min(std::max(blocks, blocks_ + blocks_ / 2), options_.max_blocks), place);
  }
  RALLY_RETURN_IF_ERROR(buffer_->Grow(Bytes(blocks)));
  SetBlocks(blocks);
  return absl::OkStatus();
}

// The next step reads what the step in flight still writes, so the copy stands between them.
absl::Status KvPool::Move(int32_t blocks, const Place& place) {
  RALLY_ASSIGN_OR_RETURN(auto larger, device_->Allocate(Space::kDevice, Bytes(blocks)));
  if (!RALLY_PLANT(KV_MOVED_UNORDERED)) place.stream->Wait(*place.after);
  place.stream->Copy(larger->data(), buffer_->data(), Bytes(blocks_));
  std::swap(larger, buffer_);
  retired_.push_back({RALLY_PLANT(KV_FREED_IN_FLIGHT) ? 0 : place.next_step, std::move(larger)});
  SetBlocks(blocks);
  if (RALLY_PLANT(KV_FREED_IN_FLIGHT)) Complete(0);
  return absl::OkStatus();
}

void KvPool::Complete(uint64_t step) {
  std::erase_if(retired_, [&](const Retired& r) { return r.last_step <= step; });
}

size_t KvPool::Bytes(int32_t blocks) const {
  return static_cast<size_t>(options_.block_bytes) * static_cast<size_t>(blocks);
}

void KvPool::SetBlocks(int32_t blocks) {
  blocks_ = blocks;
  size_bytes_.store(static_cast<int64_t>(Bytes(blocks)), std::memory_order_relaxed);
}

}  // namespace rally
