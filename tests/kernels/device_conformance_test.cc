// What every device promises (kernels/device/device.h). Order is proven with gates, which hold a
// stream until the test opens them, never with sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "kernels/device/device.h"
#include "kernels/device/host_device.h"
#include "tests/kernels/device_conformance.h"
#include "tests/kernels/host_gate.h"

namespace rally {
namespace {

using testing::HasSubstr;

TEST_P(DeviceConformanceTest, AStreamRunsInOrder) {
  const auto stream = NewStream();
  cells_.source = 7;
  Relay(*stream);
  ASSERT_TRUE(device_->Sync(*stream).ok());
  EXPECT_EQ(cells_.target, 7);
}

TEST_P(DeviceConformanceTest, AnEventIsDoneBeforeItsFirstRecord) {
  const auto event = NewEvent();
  EXPECT_TRUE(event->IsDone());
  EXPECT_TRUE(event->SyncUntil(absl::InfinitePast()).ok());
}

TEST_P(DeviceConformanceTest, AnEventWaitsForTheWorkBeforeIt) {
  HostGate gate;
  const auto stream = NewStream();
  const auto event = NewEvent();
  cells_.source = 1;
  Hold(*stream, gate);
  Relay(*stream);
  stream->Record(*event);
  EXPECT_FALSE(event->IsDone());
  const absl::Status late = event->SyncUntil(Soon());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr(device_->name()));
  EXPECT_EQ(cells_.target, 0);
  gate.Open();
  EXPECT_TRUE(event->SyncUntil(Late()).ok());
  EXPECT_TRUE(event->IsDone());
  EXPECT_EQ(cells_.target, 1);
}

TEST_P(DeviceConformanceTest, WaitOrdersTwoStreams) {
  HostGate gate;
  const auto first = NewStream(), second = NewStream();
  const auto handed_over = NewEvent(), end = NewEvent();
  cells_.source = 3;
  Hold(*first, gate);
  Copy(*first, middle_, &cells_.source);
  first->Record(*handed_over);
  second->Wait(*handed_over);
  Copy(*second, &cells_.target, middle_);
  second->Record(*end);
  EXPECT_FALSE(end->IsDone());
  gate.Open();
  ASSERT_TRUE(end->SyncUntil(Late()).ok());
  EXPECT_EQ(cells_.target, 3);
}

TEST_P(DeviceConformanceTest, AWaitHoldsItsOwnStreamOnly) {
  if (!GetParam().independent_streams) GTEST_SKIP() << "a gate holds every stream here";
  HostGate gate;
  const auto first = NewStream(), second = NewStream(), third = NewStream();
  const auto event = NewEvent(), free = NewEvent();
  Hold(*first, gate);
  first->Record(*event);
  second->Wait(*event);
  third->Record(*free);
  EXPECT_TRUE(free->SyncUntil(Late()).ok());
  gate.Open();
}

TEST_P(DeviceConformanceTest, AWaitKeepsThePointThatTheEventHadThen) {
  HostGate gate, next_gate;
  const auto first = NewStream(), second = NewStream();
  const auto event = NewEvent(), end = NewEvent();
  cells_.source = 5;
  Hold(*first, gate);
  first->Record(*event);
  second->Wait(*event);
  Relay(*second);
  second->Record(*end);
  Hold(*first, next_gate);
  first->Record(*event);
  gate.Open();
  ASSERT_TRUE(end->SyncUntil(Late()).ok());
  EXPECT_EQ(cells_.target, 5);
  EXPECT_FALSE(event->IsDone());
  next_gate.Open();
  EXPECT_TRUE(event->SyncUntil(Late()).ok());
}

TEST_P(DeviceConformanceTest, AGraphRunsWhenItIsLaunchedOnly) {
  const auto stream = NewStream();
  cells_.source = 1;
  auto graph = device_->Capture(*stream, [&] { Relay(*stream); });
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(device_->Sync(*stream).ok());
  EXPECT_EQ(cells_.target, 0);
  for (int64_t value = 1; value <= 3; ++value) {
    cells_.source = value;
    stream->Launch(**graph);
    ASSERT_TRUE(device_->Sync(*stream).ok());
    EXPECT_EQ(cells_.target, value);
  }
}

TEST_P(DeviceConformanceTest, MemoryIsZeroedAndAligned) {
  const auto buffer = *device_->Allocate(Space::kPinnedHost, 1000);
  EXPECT_EQ(buffer->size_bytes(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(buffer->data()[i], std::byte{0});
}

TEST_P(DeviceConformanceTest, AbsurdSizesAreRefusedWithBothNumbers) {
  for (const size_t bytes : {size_t{1} << 46, SIZE_MAX - 5, SIZE_MAX}) {
    const auto buffer = device_->Allocate(Space::kDevice, bytes);
    ASSERT_TRUE(absl::IsResourceExhausted(buffer.status())) << buffer.status();
    EXPECT_THAT(std::string(buffer.status().message()), HasSubstr(std::to_string(bytes)));
    EXPECT_THAT(std::string(buffer.status().message()), HasSubstr("free"));
  }
}

TEST_P(DeviceConformanceTest, AReservationGrowsInPlace) {
  auto buffer = *device_->Reserve(5000, 20000);
  std::byte* const base = buffer->data();
  const auto stream = NewStream();
  cells_.source = 9;
  cells_.grown = -1;
  stream->Copy(base, &cells_.source, sizeof cells_.source);
  ASSERT_TRUE(device_->Sync(*stream).ok());
  ASSERT_TRUE(buffer->Grow(20000).ok());
  EXPECT_EQ(buffer->data(), base);
  EXPECT_EQ(buffer->size_bytes(), 20000u);
  stream->Copy(&cells_.target, base, sizeof cells_.target);
  stream->Copy(&cells_.grown, base + 19992, sizeof cells_.grown);
  ASSERT_TRUE(device_->Sync(*stream).ok());
  EXPECT_EQ(cells_.target, 9);
  EXPECT_EQ(cells_.grown, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(buffer->Grow(20001)));
  EXPECT_EQ(buffer->size_bytes(), 20000u);
}

TEST_P(DeviceConformanceTest, AStreamEndsItsWorkBeforeItGoes) {
  auto stream = NewStream();
  cells_.source = 4;
  for (int i = 0; i < 100; ++i) Relay(*stream);
  const auto event = NewEvent();
  stream->Record(*event);
  stream.reset();
  EXPECT_TRUE(event->IsDone());
  EXPECT_EQ(cells_.target, 4);
}

TEST_P(DeviceConformanceTest, ADeviceGoesWithWorkQueued) {
  HostGate gate;
  const auto stream = NewStream();
  const auto event = NewEvent();
  Hold(*stream, gate);
  for (int i = 0; i < 100; ++i) Relay(*stream);
  stream->Record(*event);
  std::thread opener([&] { gate.Open(); });
  device_.reset();
  opener.join();
  EXPECT_TRUE(event->IsDone());
}

void HoldHost(Stream& stream, HostGate& gate) { gate.Enqueue(stream); }

INSTANTIATE_TEST_SUITE_P(
    Host, DeviceConformanceTest,
    testing::Values(
        DeviceCase{"OneWorker", [] { return *NewHostDevice({.threads = 1}); }, HoldHost, false},
        DeviceCase{"WorkerPerStream", [] { return *NewHostDevice({.worker_per_stream = true}); },
                   HoldHost, true}),
    DeviceCaseName);

}  // namespace
}  // namespace rally
