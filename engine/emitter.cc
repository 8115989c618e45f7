#include "engine/emitter.h"

#include <utility>

namespace rally {

ThreadedEmitter::ThreadedEmitter(int32_t threads, int32_t max_streams) {
  for (int32_t i = 0; i < threads; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->noted.reserve(max_streams);
    lane->queue.reserve(max_streams);
    lane->thread = std::thread(&ThreadedEmitter::Run, lane.get());
    lanes_.push_back(std::move(lane));
  }
}

ThreadedEmitter::~ThreadedEmitter() {
  Flush();
  for (auto& lane : lanes_) {
    {
      std::lock_guard lock(lane->mutex);
      lane->stop = true;
    }
    lane->wake.notify_one();
    lane->thread.join();
  }
}

void ThreadedEmitter::Notify(const std::shared_ptr<Output>& output) {
  if (output->MarkQueued()) lanes_[output->emitter()]->noted.push_back(output);
}

void ThreadedEmitter::Flush() {
  for (auto& lane : lanes_) {
    if (lane->noted.empty()) continue;
    {
      std::lock_guard lock(lane->mutex);
      for (auto& output : lane->noted) lane->queue.push_back(std::move(output));
    }
    lane->noted.clear();
    lane->wake.notify_one();
  }
}

void ThreadedEmitter::Run(Lane* lane) {
  std::vector<std::shared_ptr<Output>> batch;
  batch.reserve(lane->queue.capacity());
  while (true) {
    {
      std::unique_lock lock(lane->mutex);
      lane->wake.wait(lock, [&] { return lane->stop || !lane->queue.empty(); });
      if (lane->queue.empty()) return;
      batch.swap(lane->queue);
    }
    for (auto& output : batch) {
      // Cleared before the look at the ring: what is appended after it queues the output again.
      output->ClearQueued();
      output->Pump();
    }
    batch.clear();
  }
}

}  // namespace rally
