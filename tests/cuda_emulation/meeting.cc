#include "tests/cuda_emulation/meeting.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/cuda_emulation/failure.h"

namespace rally::emulation {
namespace {

bool SamePlace(const Wait& a, const Wait& b) {
  if (std::memcmp(&a.where, &b.where, sizeof a.where) == 0) return true;  // one call, one object
  return a.where.line() == b.where.line() && a.where.column() == b.where.column() &&
         std::strcmp(a.where.file_name(), b.where.file_name()) == 0;
}

// Different places are most often two branches that threads should have taken together.
void CheckSamePlace(const Thread& a, const Thread& b) {
  if (SamePlace(a.wait, b.wait)) return;
  Fail(absl::StrCat("divergence: thread ", a.index.x, " has come to ", a.wait.op, " at line ",
                    a.wait.where.line(), ", thread ", b.index.x, " to ", b.wait.op),
       b.wait.where);
}

// The running thread, if it is among them, goes on without being woken.
void WakeOther(Thread& thread) {
  if (&thread != Wave::Current().thread()) Wave::Current().Wake(thread);
}

// Those that are there already have agreed with each other.
void CheckMask(const Warp& warp, uint32_t mask) {
  const uint32_t others = mask & warp.arrived;
  if (others == 0) return;
  const int lane = __builtin_ctz(others);
  if (warp.arrivals[lane].mask == mask) return;
  Fail(absl::StrFormat("lanes of one warp meet with the masks %08x and %08x", mask,
                       warp.arrivals[lane].mask),
       warp.threads[lane].wait.where);
}

// Lets the lanes of `mask` exchange their operands and go on, if all of them are there.
bool ExchangeIfAllHere(Warp& warp, uint32_t mask) {
  if ((mask & warp.living & ~warp.arrived) != 0) return false;
  const uint32_t lanes = mask & warp.living;
  void* operands[kWarpLanes] = {};
  const int first = __builtin_ctz(lanes);
  for (int lane = first; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    CheckSamePlace(warp.threads[first], warp.threads[lane]);
    operands[lane] = warp.arrivals[lane].operand;
  }
  warp.arrivals[first].exchange(operands);
  warp.arrived &= ~lanes;
  for (int lane = first; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) WakeOther(warp.threads[lane]);
  }
  return true;
}

int ResultOf(const ThreadBarrier& barrier) {
  switch (barrier.combine) {
    case Combine::kNone:
      return 0;
    case Combine::kAny:
      return barrier.true_count > 0 ? 1 : 0;
    case Combine::kAll:
      return barrier.true_count == static_cast<int>(barrier.arrived.size()) ? 1 : 0;
    case Combine::kCount:
      return barrier.true_count;
  }
  return 0;
}

// A barrier of some threads counts warps on the GPU, whatever lanes have come.
void CheckWholeWarps(const ThreadBarrier& barrier) {
  uint32_t warps[32] = {};
  for (const Thread* thread : barrier.arrived) {
    warps[thread->index.x / kWarpLanes] |= 1u << thread->lane;
  }
  for (const Thread* thread : barrier.arrived) {
    if (warps[thread->index.x / kWarpLanes] == ~0u) continue;
    Fail("a barrier of some warps is reached by a part of a warp, or by too many warps",
         thread->wait.where);
  }
}

void ReleaseIfAllHere(ThreadBarrier& barrier, unsigned living) {
  const unsigned wanted = barrier.threads == 0 ? living : barrier.threads;
  if (barrier.arrived.empty() || barrier.arrived.size() < wanted) return;
  if (barrier.threads != 0) CheckWholeWarps(barrier);
  const int result = ResultOf(barrier);
  std::vector<Thread*> released;
  released.swap(barrier.arrived);
  barrier.true_count = 0;
  for (Thread* thread : released) {
    thread->barrier_result = result;
    thread->at_barrier = false;
    WakeOther(*thread);
  }
  released.clear();
  released.swap(barrier.arrived);  // keeps the memory
}

int Meet(ThreadBarrier& barrier, unsigned living, int predicate, const Wait& wait) {
  Thread& thread = CurrentThread();
  thread.wait = wait;
  thread.at_barrier = true;
  barrier.arrived.push_back(&thread);
  barrier.true_count += predicate != 0 ? 1 : 0;
  ReleaseIfAllHere(barrier, living);
  if (thread.at_barrier) Wave::Current().Sleep(wait);
  return thread.barrier_result;
}

}  // namespace

void MeetWarp(uint32_t mask, const Wait& wait, void* operand, void (*exchange)(WarpOperands)) {
  Thread& thread = CurrentThread();
  Warp& warp = *thread.warp;
  if ((mask >> thread.lane & 1) == 0) {
    Fail(absl::StrFormat("%s by lane %d, which is not in its mask %08x", wait.op, thread.lane,
                         mask),
         wait.where);
  }
  thread.wait = wait;
  CheckMask(warp, mask);
  warp.arrivals[thread.lane] = {mask, operand, exchange};
  warp.arrived |= 1u << thread.lane;
  if (!ExchangeIfAllHere(warp, mask)) Wave::Current().Sleep(wait);
}

int MeetBlock(Combine combine, int predicate, const Wait& wait) {
  Block& block = CurrentBlock();
  ThreadBarrier& barrier = block.barriers[0];
  CurrentThread().wait = wait;
  if (!barrier.arrived.empty()) CheckSamePlace(*barrier.arrived.front(), CurrentThread());
  barrier.combine = combine;
  return Meet(barrier, block.living, predicate, wait);
}

void MeetNamed(int id, int threads, const Wait& wait) {
  if (id < 1 || id > 15 || threads < kWarpLanes || threads % kWarpLanes != 0) {
    Fail(absl::StrCat("barrier ", id, " of ", threads, " threads"), wait.where);
  }
  Block& block = CurrentBlock();
  ThreadBarrier& barrier = block.barriers[id];
  const auto wanted = static_cast<unsigned>(threads);
  if (!barrier.arrived.empty() && barrier.threads != wanted) {
    Fail(absl::StrCat("barrier ", id, " is reached with ", barrier.threads, " and with ", threads,
                      " threads"),
         wait.where);
  }
  barrier.threads = wanted;
  Meet(barrier, block.living, 0, wait);
}

void MeetCluster(const Wait& wait) {
  Cluster& cluster = *CurrentBlock().cluster;
  Meet(cluster.barrier, cluster.living, 0, wait);
}

void* MapToBlock(void* p, uint32_t rank, std::source_location where) {
  const Block& own = CurrentBlock();
  if (!own.shared.Holds(p, 1)) Fail("InBlockOfCluster of what is not dynamic shared memory", where);
  if (rank >= Wave::Current().launch().cluster_z) {
    Fail(absl::StrCat("InBlockOfCluster: there is no block ", rank, " in the cluster"), where);
  }
  const Block& other = own.first_of_cluster[rank];
  if (other.living == 0) {
    Fail(absl::StrCat("InBlockOfCluster: block ", rank, " of the cluster has ended"), where);
  }
  return other.shared.data + (static_cast<std::byte*>(p) - own.shared.data);
}

void MeetWithout(Thread& ended) {
  Warp& warp = *ended.warp;
  for (int lane = 0; warp.arrived != 0 && lane < kWarpLanes; ++lane) {
    if ((warp.arrived >> lane & 1) != 0) ExchangeIfAllHere(warp, warp.arrivals[lane].mask);
  }
  Block& block = *warp.block;
  ReleaseIfAllHere(block.barriers[0], block.living);
  ReleaseIfAllHere(block.cluster->barrier, block.cluster->living);
}

}  // namespace rally::emulation
