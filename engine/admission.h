// The door of an engine: turns a RequestSpec into a Sequence or a rejection, and hands accepted
// ones and cancels to the engine thread through a bounded inbox.
//
// Threads: Submit, Cancel, Close and the getters from any thread; Take, Wait and the Left* calls
// from the engine thread.
#ifndef RALLY_ENGINE_ADMISSION_H_
#define RALLY_ENGINE_ADMISSION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/engine_config.h"
#include "engine/sequence.h"

namespace rally {

struct CancelMessage {
  uint64_t key = 0;
  FinishReason reason = FinishReason::kCancelled;
};

struct InboxBatch {
  std::vector<std::unique_ptr<Sequence>> submitted;
  std::vector<CancelMessage> cancelled;
  bool abort_all = false;
  absl::Time first_arrival = absl::InfiniteFuture();  // of `submitted`
  bool empty() const { return submitted.empty() && cancelled.empty() && !abort_all; }
};

class Admission {
 public:
  struct Limits {
    int32_t context_tokens = 0;
    int64_t pool_tokens = 0;  // positions that the KV pool holds
    int32_t max_queued_requests = 0;
    int64_t max_queued_tokens = 0;
    int32_t emitters = 1;
    std::vector<int32_t> eos_ids;
  };

  // Both pointers outlive this.
  Admission(Limits limits, const Vocabulary* vocabulary, const Clock* clock);

  // The errors of Engine::Submit.
  absl::StatusOr<uint64_t> Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink);
  void Cancel(uint64_t key, FinishReason reason);
  // Everything that is left ends now.
  void AbortAll();
  // Submit answers UNAVAILABLE with this message from now on.
  void Close(std::string_view why);

  // What came since the last call, without waiting.
  void Take(InboxBatch* batch);
  // Blocks until there is something to take, or a Wake that no earlier Wait has answered.
  void Wait();
  void Wake();

  // A sequence of `prompt_tokens` left the queue (it runs, or it ended there).
  void LeftQueue(int64_t prompt_tokens);
  void LeftEngine();
  void TokensDone(int64_t tokens) { outstanding_.fetch_sub(tokens, std::memory_order_relaxed); }

  int64_t outstanding_tokens() const { return outstanding_.load(std::memory_order_relaxed); }
  // Waits until no accepted request is left; false at the deadline.
  bool WaitUntilEmpty(absl::Time deadline);

 private:
  absl::StatusOr<std::unique_ptr<Sequence>> MakeSequence(RequestSpec spec,
                                                         std::shared_ptr<TokenSink> sink) const;
  // Takes a place in the queue, or says why not.
  absl::Status Enqueue(std::unique_ptr<Sequence> sequence, uint64_t* key);

  const Limits limits_;
  const Vocabulary* const vocabulary_;
  const Clock* const clock_;
  std::atomic<int64_t> outstanding_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable emptied_;
  // Guarded by mutex_.
  InboxBatch inbox_;
  bool woken_ = false;
  std::string closed_;
  uint64_t next_key_ = 0;
  int32_t queued_requests_ = 0;
  int64_t queued_tokens_ = 0;
  int64_t live_requests_ = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_ADMISSION_H_
