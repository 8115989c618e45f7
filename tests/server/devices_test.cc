#include "server/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <string>

#include "kernels/device/cuda_device.h"

namespace rally {
namespace {

using testing::HasSubstr;

int Gpus() {
  std::string why_none;
  return CudaDeviceCount(&why_none);
}

TEST(DevicesTest, HostRanksAreNamedInOrder) {
  EXPECT_EQ(OpenDevices("host")->devices.size(), 1u);
  const auto three = OpenDevices("host:3");
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(three->kind, DeviceKind::kHost);
  ASSERT_EQ(three->devices.size(), 3u);
  EXPECT_EQ(three->devices[2]->name(), "host:2");
}

TEST(DevicesTest, OtherWordsAreRefusedWithTheirText) {
  for (const std::string word : {"", "tpu", "hosts", "host:", "host:0", "host:65", "cuda:0",
                                 "cuda:-1", "cuda:x", "host:2x", "auto:2"}) {
    const absl::Status status = OpenDevices(word).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << word << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + word + "\""));
  }
}

TEST(DevicesTest, AutoTakesTheGpusWhereThereAreSome) {
  const auto ranks = OpenDevices("auto");
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(ranks->kind, Gpus() > 0 ? DeviceKind::kCuda : DeviceKind::kHost);
  EXPECT_EQ(ranks->devices.size(), static_cast<size_t>(std::max(1, Gpus())));
}

TEST(DevicesTest, CudaWithoutGpuSaysWhatWasFound) {
  if (Gpus() > 0) GTEST_SKIP() << "there is a GPU";
  std::string why_none;
  CudaDeviceCount(&why_none);
  EXPECT_THAT(why_none, HasSubstr("CUDA"));
  if (why_none.find("built without") == std::string::npos) {
    EXPECT_THAT(why_none, HasSubstr("libcuda.so.1"));
    EXPECT_THAT(why_none, HasSubstr("/dev/nvidia"));
    EXPECT_THAT(why_none, HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
  for (const std::string word : {"cuda", "cuda:2"}) {
    const absl::Status status = OpenDevices(word).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why_none));
  }
}

TEST(DevicesTest, ComputeTypes) {
  EXPECT_EQ(*ComputeType("auto", DeviceKind::kCuda), DType::kBF16);
  EXPECT_EQ(*ComputeType("fp16", DeviceKind::kCuda), DType::kF16);
  EXPECT_EQ(*ComputeType("fp32", DeviceKind::kHost), DType::kF32);
  EXPECT_EQ(*ComputeType("bf16", DeviceKind::kHost), DType::kBF16);
  EXPECT_TRUE(absl::IsInvalidArgument(ComputeType("fp16", DeviceKind::kHost).status()));
}

}  // namespace
}  // namespace rally
