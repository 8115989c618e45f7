// A device whose every move a seed decides: which stream advances next, how far a copy gets, when a
// step is late, fails or hangs. Single-threaded: work runs when the host enqueues, polls or waits.
#ifndef RALLY_TESTS_TESTING_SCRIPTED_DEVICE_H_
#define RALLY_TESTS_TESTING_SCRIPTED_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/device/device.h"

namespace rally {

class ScriptedDevice;

class ScriptedStream : public Stream {
 public:
  explicit ScriptedStream(ScriptedDevice* device) : device_(device) {}
  void Copy(void* dst, const void* src, size_t bytes) override;
  void Record(Event& event) override;
  void Wait(const Event& event) override;
  void Launch(Graph& graph) override;
  // One op of a step: runs as a whole, at any time that the stream's order allows.
  void Op(std::function<void()> op);

 private:
  friend class ScriptedDevice;
  struct Entry {
    enum class Kind { kCopy, kRecord, kWait, kOp } kind = Kind::kOp;
    std::byte* dst = nullptr;
    const std::byte* src = nullptr;
    size_t bytes = 0;
    class ScriptedEvent* event = nullptr;
    uint64_t ticket = 0;
    std::function<void()> op;
  };
  void Push(Entry entry);

  ScriptedDevice* const device_;
  std::deque<Entry> queue_;
};

struct DeviceScript {
  uint64_t seed = 1;
  // Entries that run, on average, on each call of the host: near 0 the device is late.
  double eagerness = 1;
  std::optional<int64_t> fail_at_op;  // the op with this number fails; the error sticks
  std::optional<int64_t> hang_at_op;  // the op with this number never ends
  size_t largest_buffer_bytes = SIZE_MAX;
};

class ScriptedDevice : public Device {
 public:
  explicit ScriptedDevice(const DeviceScript& script);

  std::string name() const override { return "scripted:0"; }
  const OpTable& ops() const override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) override;
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                 const std::function<void()>& record) override;
  absl::Status Sync(Stream& stream) override;
  absl::Status status() const override { return status_; }
  int64_t ClockNanos() const override { return clock_ns_; }

  // Runs one entry, or a part of a copy, of a stream that can go on. False: nothing can.
  bool Crank();
  // The host called: a random number of entries runs.
  void OnHostCall();

 private:
  friend class ScriptedStream;
  friend class ScriptedEvent;
  bool CanRun(const ScriptedStream& stream) const;
  void RunHead(ScriptedStream* stream);
  void RunCopy(ScriptedStream* stream);

  const DeviceScript script_;
  std::mt19937_64 random_;
  std::vector<ScriptedStream*> streams_;
  std::vector<std::function<void()>>* capturing_ = nullptr;
  absl::Status status_;
  bool hung_ = false;
  int64_t ops_run_ = 0;
  int64_t clock_ns_ = 1;
};

}  // namespace rally

#endif  // RALLY_TESTS_TESTING_SCRIPTED_DEVICE_H_
