// What goes into the engine and what comes out of it, as plain data.
#ifndef RALLY_ENGINE_REQUEST_H_
#define RALLY_ENGINE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rally {

// Every field is validated (server/request_parser) before the engine sees it.
struct SamplingParams {
  float temperature = 1;  // [0, 100]; 0: greedy
  int32_t top_k = 0;      // >= 0; 0: off
  float top_p = 1;        // (0, 1]; 1: off
  float min_p = 0;        // [0, 1]; 0: off
  uint64_t seed = 0;      // chosen by the server when the request has none
};

struct StopParams {
  int32_t max_tokens = 256;          // >= 1
  int32_t min_tokens = 0;            // [0, max_tokens]; no stop of any kind before that many
  std::vector<std::string> strings;  // bytes; none empty
  std::vector<int32_t> token_ids;    // the request's own
  bool ignore_eos = false;           // the model's end ids do not stop; own ids still do
};

struct RequestSpec {
  std::string request_id;           // for logs and the echo; never a key
  std::vector<int32_t> prompt_ids;  // not empty, each in [0, vocabulary)
  SamplingParams sampling;
  StopParams stop;
  absl::Time arrival;                            // when the server got the request
  absl::Time deadline = absl::InfiniteFuture();  // the caller's; checked while queued too
};

enum class FinishReason {
  kEos,         // one of the model's end ids
  kStopToken,   // one of the request's stop ids
  kStopString,  // one of the request's stop strings
  kLength,      // max_tokens, the context or the KV pool
  kCancelled,   // the caller went away or cancelled
  kDeadline,    // the caller's deadline passed
  kFailed,      // the status says why
};

struct RequestTimings {
  absl::Duration queue;    // arrival until the first step that holds the request is planned
  absl::Duration prefill;  // from there to the first token
  absl::Duration ttft;     // arrival to first token; zero when there was none
  absl::Duration total;    // arrival to the end
};

struct Finish {
  FinishReason reason = FinishReason::kFailed;
  // OK for kEos, kStop* and kLength; CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, ... else.
  absl::Status status;
  int32_t stop_token_id = -1;      // kEos, kStopToken
  int32_t stop_string_index = -1;  // kStopString: index into StopParams::strings
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;  // ids delivered, the stop token included
  uint64_t seed = 0;
  RequestTimings timings;
};

// Where a request's output goes. Calls come from one emitter thread at a time and must not block.
// OnFinish comes exactly once and last.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // New ids and new text, both deltas. Text is valid UTF-8 and may be empty while a code point or
  // a possible stop string is incomplete; ids may be empty when held text is let go.
  virtual void OnDelta(std::span<const int32_t> ids, std::string_view text) = 0;
  virtual void OnFinish(const Finish& finish) = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_REQUEST_H_
