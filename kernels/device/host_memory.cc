#include "kernels/device/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rally {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

// The number in a control group file such as memory.max, which holds "max" where there is none.
std::optional<uint64_t> ReadNumber(const char* path) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  if (!(file >> word) || !absl::SimpleAtoi(word, &value)) return std::nullopt;
  return value;
}

struct Memory {
  uint64_t free = std::numeric_limits<uint64_t>::max();
  uint64_t total = std::numeric_limits<uint64_t>::max();
};

Memory ReadMemory() {
  Memory memory;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    uint64_t kib = 0;
    if (!(meminfo >> kib)) break;
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") memory.free = kib << 10;
    if (key == "MemTotal:") memory.total = kib << 10;
  }
  const auto limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const auto used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (limit) memory.total = std::min(memory.total, *limit);
  if (limit && used) memory.free = std::min(memory.free, *limit > *used ? *limit - *used : 0);
  return memory;
}

uint64_t FreeBytes() { return ReadMemory().free; }

absl::Status Exhausted(const std::string& device, size_t bytes, uint64_t free) {
  return absl::ResourceExhaustedError(
      absl::StrCat(device, ": asked for ", bytes, " bytes of memory, free are ", free));
}

class HostBuffer final : public Buffer {
 public:
  HostBuffer(const std::string& device, void* base, size_t mapped, size_t max_bytes)
      : device_(device), base_(base), mapped_(mapped), max_bytes_(max_bytes) {}
  ~HostBuffer() override { munmap(base_, mapped_); }

  std::byte* data() const override { return static_cast<std::byte*>(base_); }
  size_t size_bytes() const override { return size_; }

  absl::Status Grow(size_t bytes) override {
    if (bytes > max_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(device_, ": asked to grow to ", bytes, " bytes, reserved are ", max_bytes_));
    }
    if (bytes <= size_) return absl::OkStatus();
    const uint64_t free = FreeBytes();
    if (bytes - size_ > free || mprotect(base_, bytes, PROT_READ | PROT_WRITE) != 0) {
      return Exhausted(device_, bytes - size_, free);
    }
    size_ = bytes;
    return absl::OkStatus();
  }

 private:
  const std::string device_;
  void* const base_;
  const size_t mapped_;
  const size_t max_bytes_;
  size_t size_ = 0;
};

}  // namespace

DeviceMemory HostMemory() {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const Memory memory = ReadMemory();
  return {.free_bytes = static_cast<int64_t>(std::min(memory.free, kMost)),
          .total_bytes = static_cast<int64_t>(std::min(memory.total, kMost))};
}

absl::StatusOr<std::unique_ptr<Buffer>> NewHostBuffer(const std::string& device, size_t bytes,
                                                      size_t max_bytes) {
  if (bytes > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(device, ": ", bytes, " bytes asked of a reservation of ", max_bytes));
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const uint64_t free = FreeBytes();
  if (bytes > free || max_bytes > std::numeric_limits<size_t>::max() - page) {
    return Exhausted(device, max_bytes, free);
  }
  const size_t mapped = std::max(page, (max_bytes + page - 1) / page * page);
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return Exhausted(device, max_bytes, free);
  // Weights are read front to back every step: huge pages spare the page walks.
  if (mapped >= kHugePageBytes) madvise(base, mapped, MADV_HUGEPAGE);
  auto buffer = std::make_unique<HostBuffer>(device, base, mapped, max_bytes);
  if (absl::Status status = buffer->Grow(bytes); !status.ok()) return status;
  return buffer;
}

}  // namespace rally
