// The device conformance tests on the first GPU, where there is one, and what only CUDA promises.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/host/host_clock.h"
#include "tests/kernels/device_conformance.h"

namespace rally {
namespace {

using testing::HasSubstr;

bool HaveGpu() {
  std::string why_none;
  return CudaDeviceCount(&why_none) > 0;
}

void HoldCuda(Stream& stream, HostGate& gate) {
  CudaStream& cuda = OnCuda(stream);
  cuda.Check(cudaLaunchHostFunc(
                 cuda.handle(), [](void* held) { static_cast<HostGate*>(held)->Pass(); }, &gate),
             "gate");
}

std::vector<DeviceCase> CudaCases() {
  if (!HaveGpu()) return {};
  return {{"Gpu", [] { return *NewCudaDevice({.ordinal = 0}); }, HoldCuda, true}};
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformanceTest, testing::ValuesIn(CudaCases()),
                         DeviceCaseName);

TEST(CudaDeviceTest, AnOrdinalWithoutGpuIsRefusedWithWhatWasFound) {
  std::string why;
  const int count = CudaDeviceCount(&why);
  const absl::Status status = NewCudaDevice({.ordinal = 99}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  if (count == 0) {
    EXPECT_THAT(why, HasSubstr("driver"));
    EXPECT_EQ(status.message(), why);
  } else {
    EXPECT_THAT(std::string(status.message()), HasSubstr("cuda:99"));
  }
}

TEST(CudaDeviceTest, TheFirstErrorSticks) {
  if (!HaveGpu()) GTEST_SKIP() << "no GPU";
  const auto device = *NewCudaDevice({});
  const auto stream = *device->NewStream();
  EXPECT_TRUE(device->status().ok());
  OnCuda(*stream).Check(cudaErrorInvalidValue, "first");
  OnCuda(*stream).Check(cudaErrorECCUncorrectable, "second");
  EXPECT_TRUE(absl::IsInternal(device->status()));
  EXPECT_THAT(std::string(device->status().message()),
              testing::AllOf(HasSubstr("cuda:0: first"), HasSubstr("cudaErrorInvalidValue")));
}

// Each device measures on its own. An old mapping is measured again after a second.
TEST(CudaDeviceTest, ClocksOfOneGpuAgreeToWithinMicroseconds) {
  if (!HaveGpu()) GTEST_SKIP() << "no GPU";
  const auto offset = [](const Device& device) {
    const int64_t before = HostClockNanos();
    const int64_t clock = device.ClockNanos();
    const int64_t after = HostClockNanos();
    return clock - (before + (after - before) / 2);
  };
  const auto first = *NewCudaDevice({});
  absl::SleepFor(absl::Milliseconds(1100));
  first->ClockNanos();
  absl::SleepFor(absl::Milliseconds(900));
  const auto second = *NewCudaDevice({});
  EXPECT_LT(std::llabs(offset(*second) - offset(*first)), 4'000);
}

TEST(CudaDeviceTest, WorksOnAnotherThreadThanItsMaker) {
  if (!HaveGpu()) GTEST_SKIP() << "no GPU";
  const auto device = *NewCudaDevice({});
  const auto stream = *device->NewStream();
  const auto buffer = *device->Allocate(Space::kPinnedHost, 8);
  absl::Status status;
  std::thread engine([&] {
    const auto own = *device->Allocate(Space::kDevice, 8);
    *reinterpret_cast<int64_t*>(buffer->data()) = 5;
    stream->Copy(buffer->data(), own->data(), 8);
    status = device->Sync(*stream);
  });
  engine.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*reinterpret_cast<int64_t*>(buffer->data()), 0);
}

}  // namespace
}  // namespace rally
