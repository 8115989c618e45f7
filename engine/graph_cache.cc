#include "engine/graph_cache.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"

namespace rally {
namespace {

// 1 2 4 8 16 24 32 48 64 96 128 192 256 384 ... up to max_rows.
std::vector<int32_t> RowLadder(int32_t max_rows) {
  std::vector<int32_t> ladder;
  for (int32_t rows = 1; rows < max_rows; rows *= 2) {
    ladder.push_back(rows);
    if (rows >= 16 && rows / 2 * 3 < max_rows) ladder.push_back(rows / 2 * 3);
  }
  ladder.push_back(max_rows);
  return ladder;
}

std::vector<StepShape> ShapesOf(const Device& device, const StepLimits& limits) {
  if (!device.wants_tight_shapes()) {
    return {{limits.max_rows, limits.max_tokens, limits.max_samples, 0}};
  }
  std::vector<StepShape> shapes;
  for (int32_t rows : RowLadder(limits.max_rows)) shapes.push_back({rows, rows, rows, 1});
  return shapes;
}

bool Serves(const StepShape& graph, const StepShape& step) {
  return graph.decode_only <= step.decode_only && graph.max_rows >= step.max_rows &&
         graph.max_tokens >= step.max_tokens && graph.max_samples >= step.max_samples;
}

}  // namespace

absl::StatusOr<GraphCache> GraphCache::Capture(
    Device& device, Stream& stream, const StepLimits& limits,
    const std::function<void(const StepShape&)>& enqueue) {
  GraphCache cache;
  for (const StepShape& shape : ShapesOf(device, limits)) {
    RALLY_ASSIGN_OR_RETURN(auto graph, device.Capture(stream, [&] { enqueue(shape); }));
    stream.Launch(*graph);
    cache.entries_.push_back({shape, std::move(graph)});
  }
  RALLY_RETURN_IF_ERROR(device.Sync(stream));
  return cache;
}

Graph* GraphCache::Find(const StepShape& shape) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return Serves(e.shape, shape); });
  return it == entries_.end() ? nullptr : it->graph.get();
}

}  // namespace rally
