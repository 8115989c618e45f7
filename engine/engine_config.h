// Every limit of an engine, units last. Validate() cross-checks them once, at start.
#ifndef RALLY_ENGINE_ENGINE_CONFIG_H_
#define RALLY_ENGINE_ENGINE_CONFIG_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rally {

enum class LoopKind {
  kSync,      // join every step before the next one is planned
  kPingPong,  // launch step i+1 before the outcome of step i is seen
  // The same with all steps on one stream and the copies on others: benchmarks compare it.
  kCopyStream,
};

enum class KvPoolKind {
  kFixed,        // all of it at start
  kMapped,       // grows in place, in address space that is reserved at start
  kReallocated,  // grows by moving into a larger buffer: benchmarks compare it
};

struct EngineConfig {
  LoopKind loop = LoopKind::kPingPong;
  int32_t max_rows = 32;           // sequences that run at once
  int32_t max_step_tokens = 512;   // decode rows and prefill chunks of one step together
  int32_t max_chunk_tokens = 512;  // of one sequence's prompt in one step
  int32_t context_tokens = 0;      // prompt and output; 0: the model's
  int32_t kv_block_tokens = 16;
  KvPoolKind kv_pool = KvPoolKind::kFixed;
  // What the KV pool may take. 0: kv_memory_fraction of the free memory where a device has memory
  // of its own, else 256 MiB.
  int64_t kv_pool_bytes = 0;
  double kv_memory_fraction = 0.9;
  bool kv_cache = true;  // false: each step computes the whole of each row's prefix
  bool graphs = true;    // false: each op of a step is launched on its own
  int32_t max_queued_requests = 256;
  int64_t max_queued_tokens = 1 << 20;  // prompt tokens that wait
  int32_t emitter_threads = 2;
  absl::Duration step_timeout = absl::Seconds(60);
  std::vector<int32_t> eos_ids;  // the model's end ids

  absl::Status Validate() const;
};

}  // namespace rally

#endif  // RALLY_ENGINE_ENGINE_CONFIG_H_
