#include "tests/cuda_emulation/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/failure.h"

namespace rally::emulation {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAlignment = 256;
constexpr auto kGuard = std::byte{0xfe};

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Pages that fault, with one more at each end.
class Mapping {
 public:
  explicit Mapping(size_t bytes) : bytes_(RoundUp(bytes, kPageBytes) + 2 * kPageBytes) {
    void* base = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                      0);
    base_ = base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }

  bool ok() const { return base_ != nullptr; }
  std::byte* begin() const { return base_ + kPageBytes; }
  std::byte* end() const { return base_ + bytes_ - kPageBytes; }
  bool MakeUsable(size_t bytes) {
    return mprotect(begin(), RoundUp(bytes, kPageBytes), PROT_READ | PROT_WRITE) == 0;
  }

 private:
  const size_t bytes_;
  std::byte* base_;
};

class DeviceBuffer final : public Buffer {
 public:
  explicit DeviceBuffer(size_t bytes) : mapping_(std::max<size_t>(bytes, 1)), bytes_(bytes) {}
  ~DeviceBuffer() override {
    if (data_ == nullptr) return;
    const std::byte* end = data_ + bytes_;
    if (std::any_of(end, static_cast<const std::byte*>(mapping_.end()),
                    [](std::byte b) { return b != kGuard; })) {
      Fail(absl::StrCat("somebody wrote beyond a buffer of ", bytes_, " bytes"));
    }
  }

  bool Open() {
    if (!mapping_.ok() || !mapping_.MakeUsable(std::max<size_t>(bytes_, 1))) return false;
    data_ = mapping_.end() - RoundUp(bytes_, kAlignment);
    std::fill(data_ + bytes_, mapping_.end(), kGuard);
    return true;
  }
  std::byte* data() const override { return data_; }
  size_t size_bytes() const override { return bytes_; }
  absl::Status Grow(size_t) override {
    return absl::FailedPreconditionError("only reserved memory grows");
  }

 private:
  Mapping mapping_;
  const size_t bytes_;
  std::byte* data_ = nullptr;
};

class Reservation final : public Buffer {
 public:
  explicit Reservation(size_t max_bytes) : mapping_(max_bytes), max_bytes_(max_bytes) {}

  std::byte* data() const override { return mapping_.begin(); }
  size_t size_bytes() const override { return bytes_; }
  absl::Status Grow(size_t bytes) override {
    if (bytes > max_bytes_ || !mapping_.ok() || !mapping_.MakeUsable(bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("asked to grow to ", bytes, " bytes, reserved are ", max_bytes_));
    }
    bytes_ = std::max(bytes_, bytes);
    return absl::OkStatus();
  }

 private:
  Mapping mapping_;
  const size_t max_bytes_;
  size_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> NewDeviceBuffer(size_t bytes) {
  auto buffer = std::make_unique<DeviceBuffer>(bytes);
  if (!buffer->Open()) {
    return absl::ResourceExhaustedError(absl::StrCat("asked for ", bytes, " bytes"));
  }
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> NewReservation(size_t bytes, size_t max_bytes) {
  if (bytes > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes asked of a reservation of ", max_bytes));
  }
  auto buffer = std::make_unique<Reservation>(max_bytes);
  if (absl::Status status = buffer->Grow(bytes); !status.ok()) return status;
  return buffer;
}

}  // namespace rally::emulation
