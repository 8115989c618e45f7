#include "server/slow_reader_watch.h"

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"

namespace rally {
namespace {

// Ended streams leave the list at a check, so checks are frequent even for a long timeout.
constexpr absl::Duration kMaxPeriod = absl::Seconds(1);

}  // namespace

SlowReaderWatch::SlowReaderWatch(absl::Duration timeout)
    : timeout_(timeout), thread_([this] { Work(); }) {}

SlowReaderWatch::~SlowReaderWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void SlowReaderWatch::Add(std::weak_ptr<TokenStream> stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
}

void SlowReaderWatch::Work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto period = absl::ToChronoNanoseconds(std::min(timeout_ / 4, kMaxPeriod));
      if (wake_.wait_for(lock, period, [this] { return closing_; })) return;
    }
    Check();
  }
}

void SlowReaderWatch::Check() {
  std::vector<std::shared_ptr<TokenStream>> live;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [&](const std::weak_ptr<TokenStream>& weak) {
      std::shared_ptr<TokenStream> stream = weak.lock();
      if (stream == nullptr || stream->ended()) return true;
      live.push_back(std::move(stream));
      return false;
    });
  }
  const absl::Time limit = MonotonicClock::Get().Now() - timeout_;
  for (const auto& stream : live) stream->AbortIfStalledSince(limit);
}

}  // namespace rally
