#include "tests/testing/scripted_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/ops.h"

namespace rally {

class ScriptedEvent : public Event {
 public:
  explicit ScriptedEvent(ScriptedDevice* device) : device_(device) {}
  bool IsDone() const override {
    device_->OnHostCall();
    return completed_ >= recorded_;
  }
  absl::Status SyncUntil(absl::Time) const override {
    while (completed_ < recorded_) {
      if (!device_->Crank()) return absl::DeadlineExceededError("scripted:0: the step hangs");
    }
    return absl::OkStatus();
  }

  ScriptedDevice* const device_;
  uint64_t recorded_ = 0;
  uint64_t completed_ = 0;
};

namespace {

class HeapBuffer : public Buffer {
 public:
  HeapBuffer(size_t bytes, size_t max_bytes) : words_((max_bytes + 7) / 8), bytes_(bytes) {}
  // Who still reads what was freed does not find what was there.
  ~HeapBuffer() override { std::memset(words_.data(), 0xDB, words_.size() * 8); }
  std::byte* data() const override { return reinterpret_cast<std::byte*>(words_.data()); }
  size_t size_bytes() const override { return bytes_; }
  absl::Status Grow(size_t bytes) override {
    if (bytes > words_.size() * 8) return absl::ResourceExhaustedError("beyond the reservation");
    bytes_ = std::max(bytes_, bytes);
    return absl::OkStatus();
  }

 private:
  mutable std::vector<uint64_t> words_;
  size_t bytes_;
};

struct OpList : public Graph {
  std::vector<std::function<void()>> ops;
};

}  // namespace

void ScriptedStream::Push(Entry entry) {
  queue_.push_back(std::move(entry));
  device_->OnHostCall();
}

void ScriptedStream::Copy(void* dst, const void* src, size_t bytes) {
  Push({.kind = Entry::Kind::kCopy,
        .dst = static_cast<std::byte*>(dst),
        .src = static_cast<const std::byte*>(src),
        .bytes = bytes,
        .op = nullptr});
}

void ScriptedStream::Record(Event& event) {
  auto* scripted = static_cast<ScriptedEvent*>(&event);
  Push({.kind = Entry::Kind::kRecord,
        .event = scripted,
        .ticket = ++scripted->recorded_,
        .op = nullptr});
}

void ScriptedStream::Wait(const Event& event) {
  auto* scripted = const_cast<ScriptedEvent*>(static_cast<const ScriptedEvent*>(&event));
  Push({.kind = Entry::Kind::kWait,
        .event = scripted,
        .ticket = scripted->recorded_,
        .op = nullptr});
}

void ScriptedStream::Launch(Graph& graph) {
  for (const auto& op : static_cast<OpList&>(graph).ops) {
    Push({.kind = Entry::Kind::kOp, .op = op});
  }
}

void ScriptedStream::Op(std::function<void()> op) {
  if (device_->capturing_ != nullptr) {
    device_->capturing_->push_back(std::move(op));
  } else {
    Push({.kind = Entry::Kind::kOp, .op = std::move(op)});
  }
}

ScriptedDevice::ScriptedDevice(const DeviceScript& script)
    : script_(script), random_(script.seed) {}

const OpTable& ScriptedDevice::ops() const {
  static const OpTable none;  // its models enqueue their own ops
  return none;
}

absl::StatusOr<std::unique_ptr<Stream>> ScriptedDevice::NewStream() {
  auto stream = std::make_unique<ScriptedStream>(this);
  streams_.push_back(stream.get());
  return stream;
}

absl::StatusOr<std::unique_ptr<Event>> ScriptedDevice::NewEvent() {
  return std::make_unique<ScriptedEvent>(this);
}

absl::StatusOr<std::unique_ptr<Buffer>> ScriptedDevice::Allocate(Space, size_t bytes) {
  if (script_.largest_buffer_bytes < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "scripted:0: asked for ", bytes, " bytes, free are ", script_.largest_buffer_bytes));
  }
  return std::make_unique<HeapBuffer>(bytes, bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> ScriptedDevice::Reserve(size_t bytes, size_t max_bytes) {
  return std::make_unique<HeapBuffer>(bytes, max_bytes);
}

absl::StatusOr<std::unique_ptr<Graph>> ScriptedDevice::Capture(
    Stream&, const std::function<void()>& record) {
  auto graph = std::make_unique<OpList>();
  capturing_ = &graph->ops;
  record();
  capturing_ = nullptr;
  return graph;
}

absl::Status ScriptedDevice::Sync(Stream& stream) {
  while (!static_cast<ScriptedStream&>(stream).queue_.empty()) {
    if (!Crank()) break;
  }
  return status_;
}

bool ScriptedDevice::CanRun(const ScriptedStream& stream) const {
  if (stream.queue_.empty()) return false;
  const auto& head = stream.queue_.front();
  if (head.kind == ScriptedStream::Entry::Kind::kWait) {
    return head.event->completed_ >= head.ticket;
  }
  return !(hung_ && head.kind == ScriptedStream::Entry::Kind::kOp);
}

bool ScriptedDevice::Crank() {
  std::vector<ScriptedStream*> ready;
  for (ScriptedStream* stream : streams_) {
    if (CanRun(*stream)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  clock_ns_ += 1 + static_cast<int64_t>(random_() % 1000);
  RunHead(ready[random_() % ready.size()]);
  return true;
}

void ScriptedDevice::OnHostCall() {
  std::poisson_distribution<int> entries(script_.eagerness);
  for (int i = entries(random_); i > 0 && Crank(); --i) {
  }
}

void ScriptedDevice::RunHead(ScriptedStream* stream) {
  using Kind = ScriptedStream::Entry::Kind;
  ScriptedStream::Entry& head = stream->queue_.front();
  if (head.kind == Kind::kCopy) return RunCopy(stream);
  if (head.kind == Kind::kRecord) {
    head.event->completed_ = std::max(head.event->completed_, head.ticket);
  } else if (head.kind == Kind::kOp && status_.ok()) {
    const int64_t number = ++ops_run_;
    if (script_.hang_at_op == number) {
      hung_ = true;
      return;
    }
    if (script_.fail_at_op == number) {
      status_ = absl::InternalError("scripted:0: an illegal address was encountered");
    } else {
      head.op();
    }
  }
  stream->queue_.pop_front();
}

// A copy is not one moment: the host and the other stream may see and change its half.
void ScriptedDevice::RunCopy(ScriptedStream* stream) {
  ScriptedStream::Entry& head = stream->queue_.front();
  const size_t part = std::min<size_t>(head.bytes, 1 + random_() % (head.bytes + 1));
  std::memcpy(head.dst, head.src, part);
  head.dst += part;
  head.src += part;
  head.bytes -= part;
  if (head.bytes == 0) stream->queue_.pop_front();
}

}  // namespace rally
