// Moves tokens from the engine thread to the sinks: detokenises and calls them.
//
// One hand-off a step and emitter: the engine thread notes the outputs that grew and flushes once.
// A stream belongs to one emitter, so its events stay in order.
#ifndef RALLY_ENGINE_EMITTER_H_
#define RALLY_ENGINE_EMITTER_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/output.h"

namespace rally {

// Engine thread: Notify any number of times, then Flush.
class Emitter {
 public:
  virtual ~Emitter() = default;
  virtual void Notify(const std::shared_ptr<Output>& output) = 0;
  virtual void Flush() = 0;
};

// Emitter threads; an Output names one of [0, threads). The destructor delivers what is queued,
// then joins them.
class ThreadedEmitter : public Emitter {
 public:
  // At most `max_streams` outputs live at once: the bound of each queue.
  ThreadedEmitter(int32_t threads, int32_t max_streams);
  ~ThreadedEmitter() override;

  void Notify(const std::shared_ptr<Output>& output) override;
  void Flush() override;

 private:
  struct Lane {
    std::vector<std::shared_ptr<Output>> noted;  // engine thread
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::shared_ptr<Output>> queue;  // guarded by mutex
    bool stop = false;                           // guarded by mutex
    std::thread thread;
  };
  static void Run(Lane* lane);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_EMITTER_H_
