// One Generate call between the engine and the network: one write in flight, one delta filling.
//
// While a write is out, new tokens merge into the filling delta, so a slow reader gets fewer and
// larger messages and a stream never holds more than the request's max_tokens twice. The call ends
// exactly once, whatever races: the engine's OnFinish, a cancel, a deadline, a stalled reader.
//
// Owners: the RPC until it is done, and the engine until OnFinish; both hold a shared_ptr.
// Threads: any. The writer is called without the lock held, and by one thread at a time: only who
// sets write_out_, aborting_ or ended_ calls it.
#ifndef RALLY_SERVER_TOKEN_STREAM_H_
#define RALLY_SERVER_TOKEN_STREAM_H_

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/request.h"
#include "rally/v1/generation.pb.h"
#include "server/router.h"
#include "server/server_stats.h"

namespace rally {

// The RPC as a stream sees it. Write is answered by TokenStream::OnWriteDone; nothing follows End.
class StreamWriter {
 public:
  virtual ~StreamWriter() = default;
  // `message` stays valid until OnWriteDone.
  virtual void Write(const v1::GenerateResponse* message) = 0;
  virtual void End(const absl::Status& status) = 0;
  // Makes the RPC give up a write that is out: OnWriteDone(false) follows.
  virtual void Abort() = 0;
};

class TokenStream final : public TokenSink {
 public:
  // `writer` lives at least until its End returns, `stats` longer than the stream.
  TokenStream(StreamWriter* writer, ServerStats* stats) : writer_(writer), stats_(stats) {}

  // Before anything else: what Finished repeats, and when a cancel is really the deadline.
  void Describe(std::string request_id, std::vector<std::string> stop_strings, absl::Time arrival,
                absl::Time deadline);
  // The request is refused before the engine has it. Nothing happens if the call has ended already.
  void Reject(const absl::Status& status);
  // The engine has the request; tokens, and even its end, may have come before. A cancel that came
  // before is passed on.
  void Accepted(const Placement& placement);
  // True once the call needs no more work.
  bool ended() const;
  // For the request log, once the call has ended.
  struct Report {
    std::string request_id;
    Outcome outcome = Outcome::kFailed;
    Finish finish;  // with no tokens if the engine's end did not come first
    absl::Status status;
  };
  Report report() const;

  // From the RPC.
  void OnWriteDone(bool ok);
  void OnCancel();
  // From the slow reader watch: aborts the call if a write has been out since before `limit`.
  void AbortIfStalledSince(absl::Time limit);

  // From the engine.
  void OnDelta(std::span<const int32_t> ids, std::string_view text) override;
  void OnFinish(const Finish& finish) override;

 private:
  enum class Action { kNone, kWrite, kEnd };

  // With the lock held: what is to be done next. The caller does it after releasing the lock.
  Action NextAction();
  void StartWrite();
  void Do(Action action);
  // With the lock held: gives up what is not written. The outcome changes unless Finished is on its
  // way.
  void MarkBroken(Outcome outcome, absl::Status status);
  void BreakByCaller();
  // Tells the engine, if it has the request and its end has not come.
  void CancelInEngine();

  StreamWriter* const writer_;
  ServerStats* const stats_;

  mutable std::mutex mutex_;  // guards all that follows but out_ and status_
  std::string request_id_;
  std::vector<std::string> stop_strings_;
  absl::Time arrival_ = absl::InfinitePast();
  absl::Time deadline_ = absl::InfiniteFuture();
  std::optional<Placement> placement_;
  // `out_` belongs to the writer while write_out_; `filling_` collects meanwhile.
  v1::GenerateResponse out_;
  v1::GenerateResponse filling_;
  bool has_filling_ = false;
  bool write_out_ = false;
  bool aborting_ = false;  // Abort is running: no End meanwhile
  bool aborted_ = false;
  absl::Time write_start_;
  std::optional<Finish> finish_;  // the engine's word
  bool finished_written_ = false;
  // How the call ends, once that is known; what is left to write still goes out unless broken_.
  std::optional<Outcome> outcome_;
  absl::Status status_;  // written before ended_ is set, read by who set it
  bool broken_ = false;
  bool ended_ = false;
};

// Outcome of a call that is refused with `status` before acceptance.
Outcome OutcomeOfRejection(const absl::Status& status);

}  // namespace rally

#endif  // RALLY_SERVER_TOKEN_STREAM_H_
