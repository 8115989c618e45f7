// The mutable state of one accepted request. Engine thread only.
//
// There are no phases (rule 7). A sequence has three counts of positions:
//   known      ids on the host: the prompt and the outputs seen so far
//   launched   positions in launched steps; the token after them may exist on the device only
//   confirmed  positions whose step has been joined and applied
// A row of the next step starts at `launched`: below known it is (a chunk of) prefill, at known it
// is a decode row whose token the device knows.
#ifndef RALLY_ENGINE_SEQUENCE_H_
#define RALLY_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/output.h"
#include "engine/request.h"
#include "engine/text/stop_matcher.h"

namespace rally {

enum class SequenceState {
  kWaiting,     // in the queue, holds nothing
  kRunning,     // has a slot and blocks
  kPreempting,  // left the plans; gives up its blocks when its last step has been applied
  kEnded,       // had its terminal event; lives until its last step has completed
};

struct Sequence {
  uint64_t key = 0;  // the order of arrival
  RequestSpec spec;  // without its prompt_ids: `ids` begins with them
  std::shared_ptr<Output> output;
  std::shared_ptr<const StopMatcher> stop_matcher;  // null without stop strings
  std::vector<int32_t> stop_ids;                    // own ids, then the model's: what the slot gets

  SequenceState state = SequenceState::kWaiting;
  std::vector<int32_t> ids;  // known ids, prompt first; reserved for the whole length
  int32_t prompt_count = 0;
  int32_t output_limit = 0;  // tokens: the least of max_tokens, context and KV pool
  int32_t launched = 0;
  int32_t confirmed = 0;
  uint64_t last_step = 0;  // newest launched step that holds a row of this sequence
  int32_t slot = -1;
  uint32_t generation = 0;  // of the slot's tenancy: one more each time it is admitted
  std::vector<int32_t> blocks;

  StopMatcher::State stop_state;
  int64_t text_bytes = 0;  // raw bytes of the output so far
  int32_t preemptions = 0;
  bool queued = true;  // counted in the queue's limits until it is first admitted
  absl::Time first_planned = absl::InfiniteFuture();
  absl::Time first_token = absl::InfiniteFuture();
  absl::Time last_token = absl::InfinitePast();

  int32_t known() const { return static_cast<int32_t>(ids.size()); }
  int32_t output_count() const { return known() - prompt_count; }
  // Tokens that launched steps sample: position prompt - 1 makes the first.
  int32_t outputs_launched() const { return std::max(0, launched - prompt_count + 1); }
};

}  // namespace rally

#endif  // RALLY_ENGINE_SEQUENCE_H_
