// A sink that other threads can wait on.
#ifndef RALLY_TESTS_TESTING_COLLECTING_SINK_H_
#define RALLY_TESTS_TESTING_COLLECTING_SINK_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/request.h"

namespace rally {

class CollectingSink : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t> ids, std::string_view text) override {
    std::lock_guard lock(mutex_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    text_ += text;
    changed_.notify_all();
  }
  void OnFinish(const Finish& finish) override {
    std::lock_guard lock(mutex_);
    ++finishes_;
    finish_ = finish;
    changed_.notify_all();
  }

  Finish WaitForFinish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finishes_ > 0; });
    return finish_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ids_.size() >= count || finishes_ > 0; });
  }
  std::vector<int32_t> ids() const {
    std::lock_guard lock(mutex_);
    return ids_;
  }
  std::string text() const {
    std::lock_guard lock(mutex_);
    return text_;
  }
  int finishes() const {
    std::lock_guard lock(mutex_);
    return finishes_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> ids_;
  std::string text_;
  int finishes_ = 0;
  Finish finish_;
};

}  // namespace rally

#endif  // RALLY_TESTS_TESTING_COLLECTING_SINK_H_
