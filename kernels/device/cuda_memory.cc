#include "kernels/device/cuda_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/device/cuda_driver.h"

namespace rally {
namespace {

size_t FreeDeviceBytes() { return static_cast<size_t>(CudaMemory().free_bytes); }

absl::Status Exhausted(const CudaContext& context, size_t bytes, size_t free) {
  // A refused allocation is no fault of the device: later calls must not find it.
  static_cast<void>(cudaGetLastError());
  return absl::ResourceExhaustedError(absl::StrCat(context.name, ": asked for ", bytes,
                                                   " bytes of device memory, free are ", free,
                                                   " of ", CudaMemory().total_bytes));
}

absl::Status BeyondReservation(const CudaContext& context, size_t bytes, size_t reserved) {
  return absl::ResourceExhaustedError(
      absl::StrCat(context.name, ": asked to grow to ", bytes, " bytes, reserved are ", reserved));
}

absl::Status Zero(const CudaContext& context, void* data, size_t bytes) {
  cudaError_t error = cudaMemsetAsync(data, 0, bytes, context.setup.get());
  if (error == cudaSuccess) error = cudaStreamSynchronize(context.setup.get());
  return CudaStatus(error, context.name, "zeroing memory");
}

// What cudaMalloc or cudaHostAlloc gave.
template <cudaError_t (*kFree)(void*)>
class FixedBuffer final : public Buffer {
 public:
  FixedBuffer(std::shared_ptr<CudaContext> context, void* data, size_t bytes)
      : context_(std::move(context)), data_(data), bytes_(bytes) {}
  ~FixedBuffer() override {
    context_->MakeCurrent();
    static_cast<void>(kFree(data_));
  }
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  size_t size_bytes() const override { return bytes_; }
  absl::Status Grow(size_t bytes) override {
    return bytes <= bytes_ ? absl::OkStatus() : BeyondReservation(*context_, bytes, bytes_);
  }

 private:
  const std::shared_ptr<CudaContext> context_;
  void* const data_;
  const size_t bytes_;
};

CUmemAllocationProp MemoryOf(int ordinal) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return properties;
}

absl::Status DriverStatus(const CudaContext& context, const CudaDriver& driver, CUresult result,
                          const char* what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  driver.GetErrorName(result, &name);
  return absl::InternalError(
      absl::StrCat(context.name, ": ", what, ": ", name == nullptr ? "unknown error" : name));
}

// Address space with memory mapped from its start on, piece by piece.
class CudaReservation final : public Buffer {
 public:
  CudaReservation(std::shared_ptr<CudaContext> context, const CudaDriver& driver,
                  size_t granularity, size_t max_bytes)
      : context_(std::move(context)),
        driver_(driver),
        granularity_(granularity),
        max_bytes_(max_bytes) {}
  ~CudaReservation() override {
    context_->MakeCurrent();
    size_t offset = 0;
    for (const size_t piece : pieces_) {
      driver_.MemUnmap(base_ + offset, piece);
      offset += piece;
    }
    if (base_ != 0) driver_.MemAddressFree(base_, RoundUp(max_bytes_));
  }

  std::byte* data() const override { return reinterpret_cast<std::byte*>(base_); }
  size_t size_bytes() const override { return size_; }
  absl::Status Grow(size_t bytes) override;

  absl::Status ReserveAddresses();

 private:
  size_t RoundUp(size_t bytes) const {
    return std::max<size_t>(1, (bytes + granularity_ - 1) / granularity_) * granularity_;
  }
  absl::Status Map(size_t bytes);

  const std::shared_ptr<CudaContext> context_;
  const CudaDriver& driver_;
  const size_t granularity_;
  const size_t max_bytes_;
  CUdeviceptr base_ = 0;
  std::vector<size_t> pieces_;  // bytes of each mapping, in address order
  size_t mapped_ = 0;           // their sum
  size_t size_ = 0;
};

absl::Status CudaReservation::ReserveAddresses() {
  const CUresult reserved = driver_.MemAddressReserve(&base_, RoundUp(max_bytes_), 0, 0, 0);
  if (reserved == CUDA_ERROR_OUT_OF_MEMORY) {
    return Exhausted(*context_, max_bytes_, FreeDeviceBytes());
  }
  return DriverStatus(*context_, driver_, reserved, "cuMemAddressReserve");
}

absl::Status CudaReservation::Grow(size_t bytes) {
  if (bytes > max_bytes_) return BeyondReservation(*context_, bytes, max_bytes_);
  if (bytes <= size_) return absl::OkStatus();
  context_->MakeCurrent();
  if (RoundUp(bytes) > mapped_) {
    if (absl::Status status = Map(RoundUp(bytes) - mapped_); !status.ok()) return status;
  }
  size_ = bytes;
  return absl::OkStatus();
}

// Maps and zeroes the next `bytes`, a multiple of the granularity, or leaves all as it was.
absl::Status CudaReservation::Map(size_t bytes) {
  const CUmemAllocationProp properties = MemoryOf(context_->ordinal);
  CUmemGenericAllocationHandle memory = 0;
  const size_t free = FreeDeviceBytes();
  const CUresult created = driver_.MemCreate(&memory, bytes, &properties, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return Exhausted(*context_, bytes, free);
  if (created != CUDA_SUCCESS) return DriverStatus(*context_, driver_, created, "cuMemCreate");
  const CUdeviceptr begin = base_ + mapped_;
  const CUresult mapped = driver_.MemMap(begin, bytes, 0, memory, 0);
  // The mapping keeps the memory.
  driver_.MemRelease(memory);
  if (mapped != CUDA_SUCCESS) return DriverStatus(*context_, driver_, mapped, "cuMemMap");
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  absl::Status status = DriverStatus(
      *context_, driver_, driver_.MemSetAccess(begin, bytes, &access, 1), "cuMemSetAccess");
  if (status.ok()) status = Zero(*context_, reinterpret_cast<void*>(begin), bytes);
  if (!status.ok()) {
    driver_.MemUnmap(begin, bytes);
    return status;
  }
  pieces_.push_back(bytes);
  mapped_ += bytes;
  return absl::OkStatus();
}

}  // namespace

DeviceMemory CudaMemory() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {.own = true};
  return {.free_bytes = static_cast<int64_t>(free),
          .total_bytes = static_cast<int64_t>(total),
          .own = true};
}

absl::StatusOr<std::unique_ptr<Buffer>> NewCudaBuffer(std::shared_ptr<CudaContext> context,
                                                      size_t bytes) {
  const size_t free = FreeDeviceBytes();
  void* data = nullptr;
  if (bytes > free || cudaMalloc(&data, std::max<size_t>(1, bytes)) != cudaSuccess) {
    return Exhausted(*context, bytes, free);
  }
  auto buffer = std::make_unique<FixedBuffer<&cudaFree>>(context, data, bytes);
  if (absl::Status status = Zero(*context, data, bytes); !status.ok()) return status;
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> NewPinnedBuffer(std::shared_ptr<CudaContext> context,
                                                        size_t bytes) {
  void* data = nullptr;
  if (cudaHostAlloc(&data, std::max<size_t>(1, bytes), cudaHostAllocDefault) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    const int64_t free = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    return absl::ResourceExhaustedError(absl::StrCat(
        context->name, ": asked for ", bytes, " bytes of pinned host memory, free are ", free));
  }
  std::memset(data, 0, bytes);
  return std::make_unique<FixedBuffer<&cudaFreeHost>>(std::move(context), data, bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> NewCudaReservation(std::shared_ptr<CudaContext> context,
                                                           size_t bytes, size_t max_bytes) {
  if (bytes > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(context->name, ": ", bytes, " bytes asked of a reservation of ", max_bytes));
  }
  const absl::StatusOr<const CudaDriver*> driver = LoadCudaDriver();
  if (!driver.ok()) return driver.status();
  const CUmemAllocationProp properties = MemoryOf(context->ordinal);
  size_t granularity = 0;
  absl::Status status =
      DriverStatus(*context, **driver,
                   (*driver)->MemGetAllocationGranularity(&granularity, &properties,
                                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                   "cuMemGetAllocationGranularity");
  if (!status.ok()) return status;
  if (max_bytes > std::numeric_limits<size_t>::max() - granularity) {
    return Exhausted(*context, max_bytes, FreeDeviceBytes());
  }
  auto buffer =
      std::make_unique<CudaReservation>(std::move(context), **driver, granularity, max_bytes);
  status = buffer->ReserveAddresses();
  if (status.ok()) status = buffer->Grow(bytes);
  if (!status.ok()) return status;
  return buffer;
}

}  // namespace rally
