#include "tests/bench/decode/engine_choices.h"

#include <algorithm>
#include <string_view>

namespace rally {
namespace {

constexpr int32_t kUsualContext = 1024;

KvPoolKind PoolNamed(std::string_view name) {
  if (name == "mapped") return KvPoolKind::kMapped;
  return name == "realloc" ? KvPoolKind::kReallocated : KvPoolKind::kFixed;
}

}  // namespace

EngineConfig ChooseEngine(const BenchOptions& options, const EngineShape& shape,
                          const LoadedModel& model) {
  EngineConfig config;
  config.kv_pool = PoolNamed(options.kv_pool);
  config.kv_cache = options.kv_cache == "on";
  config.graphs = options.graphs == "on";
  config.max_rows = shape.rows;
  // Few enough steps until all rows have their prompt that the first row still decodes then.
  config.max_step_tokens = std::max({config.max_step_tokens, 8 * shape.rows, shape.step_tokens});
  const int32_t longest = shape.context + shape.steps + 128;
  config.context_tokens = std::min(model.config().context_length, std::max(kUsualContext, longest));
  if (!config.kv_cache) {
    config.max_step_tokens = std::max(config.max_step_tokens, shape.rows * config.context_tokens);
  }
  config.max_chunk_tokens = config.max_step_tokens;
  config.max_queued_requests = std::max(config.max_queued_requests, shape.rows);
  config.max_queued_tokens =
      std::max(config.max_queued_tokens, int64_t{shape.rows} * config.context_tokens);
  config.kv_block_tokens =
      options.kv_block_tokens > 0 ? options.kv_block_tokens : config.context_tokens;
  const int64_t blocks_a_row =
      (config.context_tokens + config.kv_block_tokens - 1) / config.kv_block_tokens;
  const double block_bytes = model.kv_bytes_per_token() * config.kv_block_tokens;
  const int64_t blocks = shape.rows * blocks_a_row + 1;  // and the null block
  config.kv_pool_bytes = static_cast<int64_t>(block_bytes * static_cast<double>(blocks + 1));
  return config;
}

}  // namespace rally
