// The captured graphs of one half of the step buffers.
//
// A device whose cost follows the launch (wants_tight_shapes) gets a ladder of graphs for
// decode-only steps, keyed by rows, and launches steps with prefill eagerly, at their size. For the
// others one graph serves every step: ops read the row counts when they run.
#ifndef RALLY_ENGINE_GRAPH_CACHE_H_
#define RALLY_ENGINE_GRAPH_CACHE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/step_record.h"

namespace rally {

class GraphCache {
 public:
  using Enqueue = std::function<void(const StepShape&)>;

  // Captures with `enqueue` and replays each graph once, over the empty record that the half holds
  // at start-up, so that the first real step pays for nothing. What is passed outlives the cache.
  static absl::StatusOr<GraphCache> Capture(Device& device, Stream& stream,
                                            const StepLimits& limits, Enqueue enqueue);

  // The smallest graph that serves a step of this shape; null: launch it eagerly. A stale graph is
  // captured anew first; no step in flight may use it.
  Graph* Find(const StepShape& shape);
  // An address that the graphs name has moved.
  void MarkStale();

 private:
  struct Entry {
    StepShape shape;
    std::unique_ptr<Graph> graph;
    bool stale = false;
  };
  absl::Status Refresh(Entry* entry);

  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
  Enqueue enqueue_;
  std::vector<Entry> entries_;  // by rows
};

}  // namespace rally

#endif  // RALLY_ENGINE_GRAPH_CACHE_H_
