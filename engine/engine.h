// One engine: one device rank with its scheduler, KV pool and threads. The facade of engine/.
//
// Threads: every method may be called from any thread. Submit and Cancel put a message into the
// bounded inbox of the engine thread and return; they never wait for it.
#ifndef RALLY_ENGINE_ENGINE_H_
#define RALLY_ENGINE_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/engine_stats.h"
#include "engine/model/decoder_model.h"
#include "engine/request.h"
#include "engine/text/vocabulary.h"
#include "kernels/device/device.h"

namespace rally {

class StepObserver;

// Names an accepted request; never reused within a process.
using RequestKey = uint64_t;

// Bytes that an engine holds.
struct EngineMemory {
  int64_t model_bytes = 0;     // parameters and activations
  int64_t kv_pool_bytes = 0;   // now; a growing pool may take more later
  int64_t kv_pool_tokens = 0;  // positions that fit, at most
  int64_t step_bytes = 0;      // records, outcomes, slots and block tables
};

class Engine {
 public:
  // `device` and `model` belong to the engine from here on; the model was built on that device.
  // `vocabulary` and `observer`, which may be null, outlive the engine. Allocates everything that
  // steps need and runs one step.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineConfig& config,
                                                        std::unique_ptr<Device> device,
                                                        std::unique_ptr<DecoderModel> model,
                                                        const Vocabulary* vocabulary,
                                                        StepObserver* observer = nullptr);
  // Cancels what still runs, delivers every terminal event and joins the threads.
  virtual ~Engine() = default;

  // INVALID_ARGUMENT: the prompt can never fit (both numbers are in the message).
  // RESOURCE_EXHAUSTED: the queue is full, try later. UNAVAILABLE: draining, or the rank is lost.
  // After an error the sink is not called; after OK it gets exactly one OnFinish.
  virtual absl::StatusOr<RequestKey> Submit(RequestSpec spec, std::shared_ptr<TokenSink> sink) = 0;
  // Ends the request with `reason` (kCancelled or kDeadline). Unknown and ended keys are no error.
  virtual void Cancel(RequestKey key, FinishReason reason) = 0;
  // From now on Submit answers UNAVAILABLE; what was accepted goes on.
  virtual void StopAccepting() = 0;
  // Waits until no request is left or the deadline; then the rest ends with UNAVAILABLE.
  virtual void Drain(absl::Time deadline) = 0;

  // Tokens that accepted requests still may cost: queued prompt tokens + output limits left.
  virtual int64_t outstanding_tokens() const = 0;
  virtual bool up() const = 0;              // false once the rank is lost
  virtual absl::Status status() const = 0;  // why
  virtual const EngineStats& stats() const = 0;
  virtual std::string device_name() const = 0;
  virtual int32_t context_tokens() const = 0;  // prompt and output together
  virtual EngineMemory memory() const = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_ENGINE_H_
