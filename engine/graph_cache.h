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
  // Captures with `enqueue` and replays each graph once, over the empty record that the half holds
  // at start-up, so that the first real step pays for nothing.
  static absl::StatusOr<GraphCache> Capture(Device& device, Stream& stream,
                                            const StepLimits& limits,
                                            const std::function<void(const StepShape&)>& enqueue);

  // The smallest graph that serves a step of this shape; null: launch it eagerly.
  Graph* Find(const StepShape& shape) const;

 private:
  struct Entry {
    StepShape shape;
    std::unique_ptr<Graph> graph;
  };
  std::vector<Entry> entries_;  // by rows
};

}  // namespace rally

#endif  // RALLY_ENGINE_GRAPH_CACHE_H_
