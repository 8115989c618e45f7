// One thread that ends the calls whose callers have stopped reading.
#ifndef RALLY_SERVER_SLOW_READER_WATCH_H_
#define RALLY_SERVER_SLOW_READER_WATCH_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/token_stream.h"

namespace rally {

class SlowReaderWatch {
 public:
  // A write that is out for `timeout` ends its call, up to a quarter of `timeout` later.
  explicit SlowReaderWatch(absl::Duration timeout);
  ~SlowReaderWatch();
  SlowReaderWatch(const SlowReaderWatch&) = delete;
  SlowReaderWatch& operator=(const SlowReaderWatch&) = delete;

  void Add(std::weak_ptr<TokenStream> stream);

 private:
  void Work();
  void Check();

  const absl::Duration timeout_;
  std::mutex mutex_;  // guards what follows but for the thread
  std::condition_variable wake_;
  std::vector<std::weak_ptr<TokenStream>> streams_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace rally

#endif  // RALLY_SERVER_SLOW_READER_WATCH_H_
