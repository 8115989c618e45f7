#include "tests/cuda_emulation/wave.h"

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/cuda_emulation/cuda_language.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/meeting.h"

namespace rally::emulation {
namespace {

// Turns without progress, a living thread, after which polling threads are taken for stuck.
constexpr uint64_t kMaxIdlePasses = 10000;

}  // namespace

Wave Wave::current_;

void Wave::Run(const KernelLaunch& launch, const std::vector<uint3>& blocks, Random* random) {
  launch_ = &launch;
  random_ = random;
  Prepare(blocks);
  while (living_ > 0) {
    if (!bulk_copies_.empty() && random_->OneIn(4)) bulk_copies_.LandOne();
    if (runnable_.empty() || idle_passes_ > kMaxIdlePasses * living_) {
      Unstick();
      continue;
    }
    const uint32_t chosen = random_->Below(static_cast<uint32_t>(runnable_.size()));
    Warp& warp = *runnable_[chosen];
    runnable_[chosen] = runnable_.back();
    runnable_.pop_back();
    RunWarp(warp);
    warp.listed = warp.ready != 0;
    if (warp.listed) runnable_.push_back(&warp);
  }
  launch_ = nullptr;
}

void Wave::Prepare(const std::vector<uint3>& blocks) {
  warps_per_block_ = (launch_->block + kWarpLanes - 1) / kWarpLanes;
  blocks_.resize(blocks.size());
  clusters_.assign(blocks.size() / launch_->cluster_z, {});
  warps_.resize(std::max(warps_.size(), blocks.size() * warps_per_block_));
  if (threads_.size() < warps_.size() * kWarpLanes) {
    threads_ = std::vector<Thread>(warps_.size() * kWarpLanes);
  }
  shared_.Divide(blocks.size(), launch_->shared_bytes);
  runnable_.clear();
  barrier_sleepers_.clear();
  idle_passes_ = 0;
  living_ = blocks.size() * launch_->block;
  for (size_t b = 0; b < blocks.size(); ++b) PrepareBlock(b, blocks[b]);
}

void Wave::PrepareBlock(size_t b, const uint3& index) {
  Block& block = blocks_[b];
  block.index = index;
  block.living = launch_->block;
  block.shared = shared_.Region(b);
  block.waited_for_inputs = false;
  block.cluster = &clusters_[b / launch_->cluster_z];
  block.cluster->living += launch_->block;
  block.first_of_cluster = &blocks_[b / launch_->cluster_z * launch_->cluster_z];
  for (unsigned t = 0; t < launch_->block; ++t) {
    const size_t w = b * warps_per_block_ + t / kWarpLanes;
    Warp& warp = warps_[w];
    const size_t place = w * kWarpLanes + t % kWarpLanes;
    if (t % kWarpLanes == 0) {
      warp.block = &block;
      warp.threads = &threads_[place];
      warp.living = warp.ready = warp.arrived = 0;
      warp.listed = true;
      runnable_.push_back(&warp);
    }
    Thread& thread = threads_[place];
    thread.index = {t, 0, 0};
    thread.warp = &warp;
    thread.lane = static_cast<int>(t % kWarpLanes);
    thread.state = Thread::State::kReady;
    thread.fiber.Start(stacks_.Get(place), &Wave::ThreadBody);
    warp.living |= 1u << thread.lane;
    warp.ready |= 1u << thread.lane;
  }
}

// Lanes run in a random order, and mostly the same warp a few times, whose stacks are in the cache.
void Wave::RunWarp(Warp& warp) {
  do {
    const uint32_t order = random_->Below(kWarpLanes);
    for (uint32_t i = 0; i < kWarpLanes; ++i) {
      const uint32_t lane = i ^ order;
      if ((warp.ready >> lane & 1) != 0) Resume(warp.threads[lane]);
    }
  } while (warp.ready != 0 && !random_->OneIn(8));
}

void Wave::Resume(Thread& thread) {
  thread_ = &thread;
  threadIdx = thread.index;
  blockIdx = thread.warp->block->index;
  thread.fiber.Resume();
  if (thread.state == Thread::State::kEnded) EndThread(thread);
  thread_ = nullptr;
}

void Wave::ThreadBody() {
  Wave& wave = Current();
  wave.launch_->call();
  Thread& thread = *wave.thread_;
  thread.state = Thread::State::kEnded;
  thread.fiber.Pause();
}

void Wave::EndThread(Thread& thread) {
  Warp& warp = *thread.warp;
  Block& block = *warp.block;
  thread.copies.Finish();
  warp.living &= ~(1u << thread.lane);
  warp.ready &= ~(1u << thread.lane);
  --living_;
  --block.living;
  --block.cluster->living;
  NoteProgress();
  MeetWithout(thread);
  if (block.living == 0) EndBlock(block);
}

void Wave::EndBlock(Block& block) {
  if (!GuardsAreIntact(block.shared)) {
    Fail(absl::StrCat("the block wrote beyond its ", block.shared.bytes,
                      " bytes of dynamic shared memory"));
  }
  if (bulk_copies_.HasOf(block)) Fail("the block ends while a bulk copy is under way");
  if (!block.waited_for_inputs) Fail("the block ends and none of its threads waited for inputs");
  // What another block of the cluster still reads is gone.
  if (concurrent()) Poison(block.shared);
}

// Nothing can run, or everything polls and nothing happens.
void Wave::Unstick() {
  if (!bulk_copies_.empty()) {
    bulk_copies_.LandOne();
    idle_passes_ = 0;
    return;
  }
  Fail(absl::StrCat("deadlock: ", DescribeWaits()));
}

void Wave::Pass() {
  ++idle_passes_;
  thread_->fiber.Pause();
}

void Wave::PassSometimes() {
  if (random_->OneIn(32)) Pass();
}

void Wave::Sleep(const Wait& wait) {
  Thread& thread = *thread_;
  thread.wait = wait;
  thread.state = Thread::State::kWaiting;
  thread.warp->ready &= ~(1u << thread.lane);
  NoteProgress();
  thread.fiber.Pause();
}

void Wave::Wake(Thread& thread) {
  thread.state = Thread::State::kReady;
  Warp& warp = *thread.warp;
  warp.ready |= 1u << thread.lane;
  NoteProgress();
  if (warp.listed) return;
  warp.listed = true;
  runnable_.push_back(&warp);
}

std::string Wave::DescribeWaits() const {
  // (block, line, what): how many threads, and the first.
  std::map<std::tuple<size_t, unsigned, std::string>, std::pair<int, unsigned>> groups;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    for (unsigned t = 0; t < launch_->block; ++t) {
      const Thread& thread = threads_[b * warps_per_block_ * kWarpLanes + t];
      if (thread.state == Thread::State::kEnded) continue;
      const bool waits = thread.state == Thread::State::kWaiting;
      auto& [count, first] = groups[{b, waits ? thread.wait.where.line() : 0,
                                     waits ? thread.wait.op : "something that it polls"}];
      if (count++ == 0) first = t;
    }
  }
  std::string text;
  for (const auto& [key, threads] : groups) {
    const auto& [b, line, op] = key;
    const uint3 index = blocks_[b].index;
    absl::StrAppendFormat(&text, "\n  block (%d, %d, %d): %d threads from %d on wait for %s",
                          index.x, index.y, index.z, threads.first, threads.second, op);
    if (line != 0) absl::StrAppendFormat(&text, " at line %d", line);
    if (text.size() > 4000) return text + "\n  and more";
  }
  return text;
}

void NoteSharedVariable(std::source_location where) {
  if (!Wave::Current().concurrent()) return;
  Fail("a __shared__ variable in a kernel whose blocks run at the same time", where);
}

Thread& CurrentThread() {
  Thread* thread = Wave::Current().thread();
  if (thread == nullptr) Fail("a function of the device is called on the host");
  return *thread;
}

}  // namespace rally::emulation
