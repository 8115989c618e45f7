// The device memory of the KV blocks, the null block included, and how it grows.
//
//   fixed        all blocks at start
//   mapped       the addresses of all blocks are reserved at start; memory is mapped behind what is
//                there, so nothing moves
//   reallocated  a larger buffer takes over the blocks. The old one lives until the last step that
//                names it has completed; what recorded the old addresses (graphs) is stale
//
// Growing costs device memory management on the host: what each kind costs is what they are for.
// Engine thread only, but for size_bytes.
#ifndef RALLY_ENGINE_KV_POOL_H_
#define RALLY_ENGINE_KV_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "kernels/device/device.h"

namespace rally {

class KvPool {
 public:
  struct Options {
    KvPoolKind kind = KvPoolKind::kFixed;
    int64_t block_bytes = 0;
    int32_t max_blocks = 0;
  };
  // Where a move of the blocks stands in the order of the steps.
  struct Place {
    Stream* stream = nullptr;      // of the next step
    const Event* after = nullptr;  // the end of the step before it
    uint64_t next_step = 0;
  };

  static absl::StatusOr<std::unique_ptr<KvPool>> Create(Device* device, const Options& options);

  std::byte* base() const { return buffer_->data(); }
  int32_t blocks() const { return blocks_; }
  int64_t size_bytes() const { return size_bytes_.load(std::memory_order_relaxed); }

  // Makes at least `blocks` usable, at most max_blocks. After an error the pool is as it was.
  absl::Status Grow(int32_t blocks, const Place& place);
  // All steps up to `step` have completed: frees what only they named.
  void Complete(uint64_t step);

 private:
  struct Retired {
    uint64_t last_step;
    std::unique_ptr<Buffer> buffer;
  };

  KvPool(Device* device, const Options& options) : device_(device), options_(options) {}
  absl::Status Move(int32_t blocks, const Place& place);
  size_t Bytes(int32_t blocks) const;
  void SetBlocks(int32_t blocks);

  Device* const device_;
  const Options options_;
  std::unique_ptr<Buffer> buffer_;
  int32_t blocks_ = 0;
  std::atomic<int64_t> size_bytes_{0};
  std::vector<Retired> retired_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_KV_POOL_H_
