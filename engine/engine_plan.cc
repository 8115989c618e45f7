#include "engine/engine_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

absl::StatusOr<int32_t> ContextTokens(const EngineConfig& config, const DecoderModel& model) {
  if (config.context_tokens == 0) return model.context_length();
  if (config.context_tokens > model.context_length()) {
    return absl::InvalidArgumentError(absl::StrCat("context_tokens: ", config.context_tokens,
                                                   " is more than the model's ",
                                                   model.context_length()));
  }
  return config.context_tokens;
}

// Without a KV cache a row cannot be computed in parts.
absl::Status CheckWholePrefixes(const EngineConfig& config, int32_t context) {
  if (config.kv_cache || config.max_step_tokens >= context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "max_step_tokens: ", config.max_step_tokens, " is less than the context of ", context,
      " tokens, and with kv_cache off a step computes whole prefixes; raise "
      "it or lower context_tokens"));
}

int64_t PoolBytes(const EngineConfig& config, const DeviceMemory& memory) {
  constexpr int64_t kSharedMemoryBytes = int64_t{256} << 20;
  if (config.kv_pool_bytes > 0) return config.kv_pool_bytes;
  if (!memory.own) return kSharedMemoryBytes;
  return static_cast<int64_t>(static_cast<double>(memory.free_bytes) * config.kv_memory_fraction);
}

// Blocks beyond what all rows can use at full context would never be touched.
absl::StatusOr<int32_t> BlockCount(const EngineConfig& config, const DecoderModel& model,
                                   const DeviceMemory& memory, int32_t max_blocks_per_slot) {
  const int64_t block_bytes = model.KvBlockBytes(config.kv_block_tokens);
  const int64_t useful = int64_t{config.max_rows} * max_blocks_per_slot;
  const int64_t pool_bytes = PoolBytes(config, memory);
  const int64_t count = std::min(pool_bytes / block_bytes - 1, useful);  // - null block
  if (count < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.kv_pool_bytes > 0 || !memory.own ? "kv_pool_bytes: " : "kv_memory_fraction: ",
        pool_bytes, " bytes hold no block; a block of ", config.kv_block_tokens, " tokens takes ",
        block_bytes, " bytes, and one is set aside"));
  }
  return static_cast<int32_t>(std::min<int64_t>(count, 1 << 30));
}

}  // namespace

absl::StatusOr<EnginePlan> PlanEngine(const EngineConfig& config, const DecoderModel& model,
                                      const DeviceMemory& memory) {
  RALLY_RETURN_IF_ERROR(config.Validate());
  RALLY_ASSIGN_OR_RETURN(const int32_t context, ContextTokens(config, model));
  for (int32_t id : config.eos_ids) {
    if (id >= 0 && id < model.vocab_size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("eos_ids: ", id, " is not in the vocabulary of ", model.vocab_size(), " ids"));
  }
  RALLY_RETURN_IF_ERROR(CheckWholePrefixes(config, context));
  EnginePlan plan;
  const int32_t blocks_per_slot = BlocksFor(context, config.kv_block_tokens);
  RALLY_ASSIGN_OR_RETURN(plan.block_count, BlockCount(config, model, memory, blocks_per_slot));
  // A slot waits for its last step before it is free again: twice the rows never run out.
  plan.slot_count = 2 * config.max_rows;
  plan.steps_in_flight = config.loop == LoopKind::kSync ? 1 : kStepsInFlight;
  plan.scheduler = {
      .max_rows = config.max_rows,
      .max_step_tokens = config.max_step_tokens,
      .max_chunk_tokens = config.kv_cache ? config.max_chunk_tokens : config.max_step_tokens,
      .block_tokens = config.kv_block_tokens,
      .max_blocks = config.kv_pool == KvPoolKind::kFixed ? 0 : plan.block_count,
      .kv_cache = config.kv_cache};
  plan.admission = {.context_tokens = context,
                    .pool_tokens = int64_t{plan.block_count} * config.kv_block_tokens,
                    .max_queued_requests = config.max_queued_requests,
                    .max_queued_tokens = config.max_queued_tokens,
                    .emitters = config.emitter_threads,
                    .eos_ids = config.eos_ids};
  plan.executor = {.limits = {.max_rows = config.max_rows,
                              .max_tokens = config.max_step_tokens,
                              .max_samples = config.max_rows,
                              .max_block_updates = plan.block_count,
                              .slot_count = kNullSlot + 1 + plan.slot_count,
                              .max_blocks_per_slot = blocks_per_slot},
                   .block_tokens = config.kv_block_tokens,
                   .kv_pool = config.kv_pool,
                   .block_count = kNullBlock + 1 + plan.block_count,
                   .graphs = config.graphs,
                   .copy_streams = config.loop == LoopKind::kCopyStream};
  return plan;
}

}  // namespace rally
