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

absl::StatusOr<GraphCache> GraphCache::Capture(Device& device, Stream& stream,
                                               const StepLimits& limits, Enqueue enqueue) {
  GraphCache cache;
  cache.device_ = &device;
  cache.stream_ = &stream;
  cache.enqueue_ = std::move(enqueue);
  for (const StepShape& shape : ShapesOf(device, limits)) {
    Entry& entry = cache.entries_.emplace_back();
    entry.shape = shape;
    RALLY_RETURN_IF_ERROR(cache.Refresh(&entry));
    stream.Launch(*entry.graph);
  }
  RALLY_RETURN_IF_ERROR(device.Sync(stream));
  return cache;
}

absl::Status GraphCache::Refresh(Entry* entry) {
  RALLY_ASSIGN_OR_RETURN(entry->graph, device_->Capture(*stream_, [&] { enqueue_(entry->shape); }));
  entry->stale = false;
  return absl::OkStatus();
}

void GraphCache::MarkStale() {
  for (Entry& entry : entries_) entry.stale = true;
}

Graph* GraphCache::Find(const StepShape& shape) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return Serves(e.shape, shape); });
  if (it == entries_.end()) return nullptr;
  if (it->stale && !Refresh(&*it).ok()) return nullptr;
  return it->graph.get();
}

}  // namespace rally
