// The output of one request on its way from the engine thread to its emitter.
//
// The ring is sized at admission with the request's token limit, so the engine appends without
// blocking and without dropping (design: the emitter decides nothing). Each entry says how much of
// the text so far may be sent: what follows could still become a stop string.
//
// Threads: Append and End on the engine thread, Pump on one emitter thread at a time.
#ifndef RALLY_ENGINE_OUTPUT_H_
#define RALLY_ENGINE_OUTPUT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/text/incremental_detokenizer.h"
#include "engine/text/vocabulary.h"

namespace rally {

class Output {
 public:
  Output(int32_t token_limit, std::shared_ptr<TokenSink> sink, const Vocabulary* vocabulary);

  // The emitter that this stream belongs to; set once, before the output is shared.
  void set_emitter(int32_t emitter) { emitter_ = emitter; }
  int32_t emitter() const { return emitter_; }

  // `sendable_bytes` counts from the start of the output's raw bytes.
  void Append(int32_t token, int64_t sendable_bytes);
  // Once, last. `final_bytes` of the raw output are text of the answer, the rest is not.
  void End(Finish finish, int64_t final_bytes);

  // Sends what is new. True once the terminal event has been delivered.
  bool Pump();

  // True for the caller that has to queue this output: it is in a queue at most once.
  bool MarkQueued() { return !queued_.exchange(true, std::memory_order_acq_rel); }
  // An exchange, not a store: the look at the ring that follows must not come before it. Either the
  // engine thread sees the flag down and queues the output again, or this reads what the engine
  // thread wrote before it found the flag up.
  void ClearQueued() { queued_.exchange(false, std::memory_order_acq_rel); }

 private:
  struct Entry {
    int32_t token;
    int64_t sendable_bytes;
  };

  int32_t emitter_ = 0;
  const std::shared_ptr<TokenSink> sink_;
  const Vocabulary* const vocabulary_;
  std::vector<Entry> ring_;  // (token_limit): written once each, so no entry is ever reused
  std::atomic<int32_t> appended_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> queued_{false};
  Finish finish_;
  int64_t final_bytes_ = 0;

  // Emitter side.
  int32_t sent_ = 0;
  bool delivered_end_ = false;
  std::vector<int32_t> ids_;
  IncrementalDetokenizer detokenizer_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_OUTPUT_H_
