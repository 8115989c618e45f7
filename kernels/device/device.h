// The device interface: everything above kernels/ sees a GPU, a CPU and a test double through it.
//
// A Stream is an ordered queue of device work. Enqueue calls return nothing: the first error of a
// device sticks and is read once a step, at the join (Device::status). Three words, three meanings:
//   Wait    device order: the stream stands still until the event has happened; the host goes on
//   Sync    the host blocks
//   IsDone  poll
// Work of several streams is ordered by events alone. There is no default stream and nothing here
// synchronises the whole device after start-up.
//
// Threads: one thread at a time may use a Device and its streams (the engine thread of its rank);
// Event::IsDone, Event::SyncUntil and Device::status may be called from any thread.
#ifndef RALLY_KERNELS_DEVICE_DEVICE_H_
#define RALLY_KERNELS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rally {

struct OpTable;

enum class Space {
  kDevice,      // read and written by device work only
  kPinnedHost,  // host memory that the device copies from and to asynchronously
};

// Move-only bytes of one device. The memory is zeroed when it is handed out and aligned to 256.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() const = 0;
  virtual size_t size_bytes() const = 0;
  // A reserved buffer only: makes the first `bytes` usable, without moving what is there.
  virtual absl::Status Grow(size_t bytes) = 0;
};

// A point in a stream's order. Recorded again, it stands for the newer point.
class Event {
 public:
  virtual ~Event() = default;
  // True when all work before the last Record has ended; true before the first Record.
  virtual bool IsDone() const = 0;
  // Blocks the host until IsDone or the deadline; DEADLINE_EXCEEDED names the event's device.
  virtual absl::Status SyncUntil(absl::Time deadline) const = 0;
  // Device time from `earlier` to this point, both timed (Device::NewTimedEvent) and done; 0 where
  // the device has failed or times no events.
  virtual int64_t NanosSince(const Event& earlier) const { return 0; }
};

// A recorded sequence of ops that is replayed with the same arguments (addresses, row limits).
class Graph {
 public:
  virtual ~Graph() = default;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Both ends must stay valid until the copy has run. One of them at least is the device's own
  // memory: a GPU driver runs a copy from host to host on the caller's thread.
  virtual void Copy(void* dst, const void* src, size_t bytes) = 0;
  virtual void Record(Event& event) = 0;
  virtual void Wait(const Event& event) = 0;
  virtual void Launch(Graph& graph) = 0;
};

struct DeviceMemory {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
  bool own = false;  // nothing but the work of this device is meant to live there
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "host:0", "cuda:1"
  virtual const OpTable& ops() const = 0;
  // True: an op costs what its launch was sized for, however few rows count.
  virtual bool wants_tight_shapes() const { return false; }
  // Start-up only: what is there now.
  virtual DeviceMemory memory() const { return {}; }
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> NewEvent() = 0;
  // An event that also takes the time, which makes it dearer.
  virtual absl::StatusOr<std::unique_ptr<Event>> NewTimedEvent() { return NewEvent(); }
  // RESOURCE_EXHAUSTED says what was asked and what was free.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space space, size_t bytes) = 0;
  // Reserves address space for `max_bytes` and makes the first `bytes` usable.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t bytes, size_t max_bytes) = 0;
  // Runs `record` once: the ops that it enqueues on `stream` are recorded instead of run.
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream& stream,
                                                         const std::function<void()>& record) = 0;
  // Start-up only: blocks until all work of `stream` has ended.
  virtual absl::Status Sync(Stream& stream) = 0;
  // The first error of this device, or OK.
  virtual absl::Status status() const = 0;
  // The clock that the step stamps of this device read, in nanoseconds.
  virtual int64_t ClockNanos() const = 0;
  // What two stamps of that clock differ by at least, if they differ.
  virtual int64_t clock_tick_ns() const { return 1; }
};

}  // namespace rally

#endif  // RALLY_KERNELS_DEVICE_DEVICE_H_
