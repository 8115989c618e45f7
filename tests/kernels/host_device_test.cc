// What only the host device can show: sticky errors of ops, capture refusals, and that a launch
// allocates nothing.
#include "kernels/device/host_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "absl/time/clock.h"
#include "kernels/device/host_stream.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

// Every allocation of this program, on every thread, is counted. Not inlined, or the compiler takes
// the pairs of new and free for mistakes.
__attribute__((noinline)) void* operator new(size_t bytes) {
  ++g_allocations;
  void* p = std::malloc(bytes);
  if (p == nullptr) std::abort();
  return p;
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace rally {
namespace {

struct AddArgs {
  int64_t* cell;
};
void Add(const AddArgs& a) { ++*a.cell; }
absl::Status Break(const AddArgs&) { return absl::DataLossError("the op broke"); }

TEST(HostDeviceTest, TheFirstErrorSticksAndWorkDrains) {
  const auto device = *NewHostDevice({.ordinal = 3});
  EXPECT_EQ(device->name(), "host:3");
  const auto stream = *device->NewStream();
  const auto event = *device->NewEvent();
  int64_t cell = 0;
  EnqueueOnHost<&Add>(*stream, AddArgs{&cell});
  EnqueueOnHost<&Break>(*stream, AddArgs{&cell});
  EnqueueOnHost<&Add>(*stream, AddArgs{&cell});
  stream->Record(*event);
  ASSERT_TRUE(event->SyncUntil(absl::Now() + absl::Seconds(60)).ok());
  EXPECT_TRUE(absl::IsDataLoss(device->status()));
  EXPECT_EQ(cell, 1);
  static_cast<HostStream&>(*stream).Fail(absl::InternalError("later"));
  EXPECT_TRUE(absl::IsDataLoss(device->Sync(*stream)));
}

TEST(HostDeviceTest, AGraphStopsAtAnError) {
  const auto device = *NewHostDevice({});
  const auto stream = *device->NewStream();
  int64_t cell = 0;
  const auto graph = *device->Capture(*stream, [&] {
    EnqueueOnHost<&Add>(*stream, AddArgs{&cell});
    EnqueueOnHost<&Break>(*stream, AddArgs{&cell});
    EnqueueOnHost<&Add>(*stream, AddArgs{&cell});
  });
  stream->Launch(*graph);
  EXPECT_TRUE(absl::IsDataLoss(device->Sync(*stream)));
  EXPECT_EQ(cell, 1);
}

TEST(HostDeviceTest, EventsAndLaunchesCannotBeCaptured) {
  const auto device = *NewHostDevice({});
  const auto stream = *device->NewStream();
  const auto event = *device->NewEvent();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      device->Capture(*stream, [&] { stream->Record(*event); }).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(device->Capture(*stream, [&] { stream->Wait(*event); }).status()));
  const auto empty = *device->Capture(*stream, [] {});
  EXPECT_TRUE(absl::IsFailedPrecondition(
      device->Capture(*stream, [&] { stream->Launch(*empty); }).status()));
  stream->Launch(*empty);
  EXPECT_TRUE(device->Sync(*stream).ok());
}

TEST(HostDeviceTest, StepsAllocateNothing) {
  const auto device = *NewHostDevice({});
  const auto first = *device->NewStream(), second = *device->NewStream();
  const auto even = *device->NewEvent(), odd = *device->NewEvent();
  int64_t cell = 0, copy = 0;
  const auto graph = *device->Capture(*first, [&] { EnqueueOnHost<&Add>(*first, AddArgs{&cell}); });
  const auto step = [&](Stream& stream, const Event& before, Event& done) {
    stream.Copy(&copy, &cell, 0);
    stream.Wait(before);
    stream.Launch(*graph);
    stream.Record(done);
  };
  const auto both = [&] {
    step(*first, *odd, *even);
    step(*second, *even, *odd);
    return odd->SyncUntil(absl::Now() + absl::Seconds(60)).ok();
  };
  ASSERT_TRUE(both());
  const int64_t before = g_allocations;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(both());
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_EQ(cell, 2002);
}

// More entries than the ring holds at first.
TEST(HostDeviceTest, QueuesGrow) {
  const auto device = *NewHostDevice({});
  const auto stream = *device->NewStream();
  int64_t cell = 0;
  for (int i = 0; i < 10000; ++i) EnqueueOnHost<&Add>(*stream, AddArgs{&cell});
  ASSERT_TRUE(device->Sync(*stream).ok());
  EXPECT_EQ(cell, 10000);
}

TEST(HostDeviceTest, BadOptionsAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(NewHostDevice({.threads = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(NewHostDevice({.ordinal = -1}).status()));
}

}  // namespace
}  // namespace rally
