#include "engine/step_clock.h"

#include <gtest/gtest.h>

namespace rally {
namespace {

constexpr int64_t kTick = 1024;

int64_t Coarse(int64_t ns) { return ns / kTick * kTick; }

// Steps of 190,321 ns with gaps of 2,417 ns, seen through a clock that ticks every 1,024 ns.
TEST(StampRefinerTest, GapsAndLengthsAreExactThoughTheClockIsCoarse) {
  constexpr int64_t kGap = 2417, kLength = 190321;
  StampRefiner refiner(kTick);
  int64_t start = 5'000'000'123;
  int64_t last_end = 0;
  for (int i = 0; i < 1000; ++i) {
    OutcomeHeader header = {.start_ns = Coarse(start), .end_ns = Coarse(start + kLength)};
    refiner.Refine(kGap, kLength, &header);
    EXPECT_EQ(header.end_ns - header.start_ns, kLength);
    if (i > 0) {
      EXPECT_EQ(header.start_ns - last_end, kGap);
    }
    EXPECT_LE(std::abs(header.start_ns - start), 2 * kTick);
    last_end = header.end_ns;
    start += kLength + kGap;
  }
}

TEST(StampRefinerTest, ReturnsToTheClockWhereTheTwoHaveDriftedApart) {
  constexpr int64_t kLength = 100'000;
  StampRefiner refiner(kTick);
  int64_t start = 7'000'000'000;
  for (int i = 0; i < 10'000; ++i) {
    OutcomeHeader header = {.start_ns = Coarse(start), .end_ns = Coarse(start + kLength)};
    refiner.Refine(1010, kLength, &header);  // 10 ns a step too much
    EXPECT_LE(std::abs(header.start_ns - start), 4 * kTick) << i;
    start += kLength + 1000;
  }
}

class CoarseEvent : public Event {
 public:
  bool IsDone() const override { return true; }
  absl::Status SyncUntil(absl::Time) const override { return absl::OkStatus(); }
  int64_t NanosSince(const Event& earlier) const override {
    return at - static_cast<const CoarseEvent&>(earlier).at;
  }
  int64_t at = 0;
};

// A device of which the step clock sees events and the tick alone.
class ClockOnlyDevice : public Device {
 public:
  explicit ClockOnlyDevice(int64_t tick) : tick_(tick) {}
  std::string name() const override { return "clock:0"; }
  const OpTable& ops() const override { std::abort(); }
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override { return Unused(); }
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override {
    return std::make_unique<CoarseEvent>();
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Space, size_t) override { return Unused(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Reserve(size_t, size_t) override { return Unused(); }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(Stream&, const std::function<void()>&) override {
    return Unused();
  }
  absl::Status Sync(Stream&) override { return Unused(); }
  absl::Status status() const override { return absl::OkStatus(); }
  int64_t ClockNanos() const override { return 0; }
  int64_t clock_tick_ns() const override { return tick_; }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not here"); }
  const int64_t tick_;
};

// Runs everything at once, at a time that the test sets.
class ClockStream : public Stream {
 public:
  void Copy(void*, const void*, size_t) override {}
  void Record(Event& event) override { static_cast<CoarseEvent&>(event).at = now; }
  void Wait(const Event&) override {}
  void Launch(Graph&) override {}
  int64_t now = 0;
};

TEST(StepClockTest, StampsThatAreFineEnoughStayAsTheyAre) {
  ClockOnlyDevice device(StepClock::kCoarseTickNanos);
  auto clock = StepClock::Create(&device, 3);
  ASSERT_TRUE(clock.ok());
  EXPECT_FALSE(clock->uses_events());
  OutcomeHeader header = {.start_ns = 5, .end_ns = 9};
  clock->Correct(1, &header);
  EXPECT_EQ(header.start_ns, 5);
  EXPECT_EQ(header.end_ns, 9);
}

// Two steps in flight, as the ping-pong loop has them: a step is joined after the next one began.
TEST(StepClockTest, EventsTimeTheStepsOfACoarseClock) {
  ClockOnlyDevice device(kTick);
  auto clock = StepClock::Create(&device, 3);
  ASSERT_TRUE(clock.ok());
  ASSERT_TRUE(clock->uses_events());
  ClockStream stream;
  stream.now = 3'000'000'000;
  OutcomeHeader headers[8];
  int64_t last_end = 0;
  for (uint64_t step = 1; step <= 8; ++step) {
    stream.now += 2300;
    OutcomeHeader& header = headers[step - 1];
    header.start_ns = Coarse(stream.now);
    clock->Begin(stream, step);
    stream.now += 150'077;
    header.end_ns = Coarse(stream.now);
    clock->End(stream, step);
    if (step == 1) continue;
    OutcomeHeader& joined = headers[step - 2];
    clock->Correct(step - 1, &joined);
    EXPECT_EQ(joined.end_ns - joined.start_ns, 150'077);
    if (step > 2) {
      EXPECT_EQ(joined.start_ns - last_end, 2300);
    }
    last_end = joined.end_ns;
  }
}

}  // namespace
}  // namespace rally
