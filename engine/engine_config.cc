#include "engine/engine_config.h"

#include "absl/strings/str_cat.h"

namespace rally {
namespace {

absl::Status InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", value, " is not in [", low, ", ", high, "]"));
}

}  // namespace

absl::Status EngineConfig::Validate() const {
  constexpr int64_t kTiB = int64_t{1} << 40;
  for (const absl::Status& status : {
           InRange("max_rows", max_rows, 1, 4096),
           InRange("max_step_tokens", max_step_tokens, max_rows, 1 << 20),
           InRange("max_chunk_tokens", max_chunk_tokens, 1, max_step_tokens),
           InRange("context_tokens", context_tokens, 0, 1 << 24),
           InRange("kv_block_tokens", kv_block_tokens, 1, 1 << 20),
           InRange("kv_pool_bytes", kv_pool_bytes, 0, 16 * kTiB),
           InRange("max_queued_requests", max_queued_requests, 1, 1 << 20),
           InRange("max_queued_tokens", max_queued_tokens, 1, kTiB),
           InRange("emitter_threads", emitter_threads, 1, 64),
       }) {
    if (!status.ok()) return status;
  }
  if (!(kv_memory_fraction > 0 && kv_memory_fraction <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_memory_fraction: ", kv_memory_fraction, " is not in (0, 1]"));
  }
  if (step_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("step_timeout: it must be longer than zero");
  }
  return absl::OkStatus();
}

}  // namespace rally
