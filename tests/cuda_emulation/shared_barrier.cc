#include "tests/cuda_emulation/shared_barrier.h"

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {
namespace {

constexpr uint32_t kMaxCount = (1u << 20) - 1;  // of arrivals, and of bytes either way
constexpr uint64_t kMark = 1;                   // neither zeros nor the poison

// All of it lies in the barrier's 64 bits, so that whatever overwrites one is noticed.
struct State {
  uint64_t mark : 2;
  uint64_t parity : 1;    // of the phase that has not ended yet
  uint64_t pending : 20;  // arrivals that this phase lacks
  uint64_t arrivals : 20;
  int64_t bytes : 21;  // announced and not yet here; negative: here and not yet announced
};
static_assert(sizeof(State) == sizeof(uint64_t));

State& StateOf(uint64_t* barrier) { return *reinterpret_cast<State*>(barrier); }

void EndPhaseIfComplete(uint64_t* barrier) {
  State& state = StateOf(barrier);
  if (state.pending != 0 || state.bytes != 0) return;
  state.parity ^= 1;
  state.pending = state.arrivals;
  std::erase_if(Wave::Current().barrier_sleepers(), [&](const BarrierSleeper& sleeper) {
    if (sleeper.barrier == barrier) Wave::Current().Wake(*sleeper.thread);
    return sleeper.barrier == barrier;
  });
}

}  // namespace

void CheckBarrier(const uint64_t* barrier, std::source_location where) {
  if (reinterpret_cast<uintptr_t>(barrier) % sizeof(uint64_t) != 0) {
    Fail("a barrier at an address that is not aligned to 8", where);
  }
  if (!CurrentBlock().shared.Holds(barrier, sizeof(uint64_t)) && !IsStatic(barrier)) {
    Fail("a barrier that is not in the block's shared memory", where);
  }
  if (reinterpret_cast<const State*>(barrier)->mark != kMark) {
    Fail("a barrier that was not initialised, or overwritten", where);
  }
}

void InitializeBarrier(uint64_t* barrier, uint32_t arrivals, std::source_location where) {
  if (arrivals == 0 || arrivals > kMaxCount) {
    Fail(absl::StrCat("a barrier of ", arrivals, " arrivals"), where);
  }
  StateOf(barrier) = {.mark = kMark, .parity = 0, .pending = arrivals, .arrivals = arrivals,
                      .bytes = 0};
  CheckBarrier(barrier, where);
}

void ArriveAtBarrier(uint64_t* barrier, uint32_t bytes, std::source_location where) {
  CheckBarrier(barrier, where);
  State& state = StateOf(barrier);
  if (state.pending == 0) Fail("an arrival more than the barrier's phase has", where);
  if (int64_t{state.bytes} + bytes > int64_t{kMaxCount}) {
    Fail("a barrier is told of more than 2^20 - 1 bytes", where);
  }
  state.bytes += bytes;
  state.pending -= 1;
  EndPhaseIfComplete(barrier);
  Wave::Current().NoteProgress();
}

void WaitForBarrier(const uint64_t* barrier, uint32_t parity, std::source_location where) {
  CheckBarrier(barrier, where);
  // Looks again when it runs: a phase that begins and ends in between is missed, as on the GPU.
  while (reinterpret_cast<const State*>(barrier)->parity == parity) {
    Wave::Current().barrier_sleepers().push_back({barrier, &CurrentThread()});
    Wave::Current().Sleep({parity == 0 ? "WaitBarrier, parity 0" : "WaitBarrier, parity 1", where});
    CheckBarrier(barrier, where);
  }
}

void CompleteBytes(uint64_t* barrier, uint32_t bytes) {
  State& state = StateOf(barrier);
  if (state.mark != kMark) Fail("the barrier of a bulk copy was overwritten");
  state.bytes -= bytes;
  EndPhaseIfComplete(barrier);
}

}  // namespace rally::emulation
