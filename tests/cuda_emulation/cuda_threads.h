// CUDA's functions by which threads meet and exchange values: barriers, shuffles, votes.
#ifndef RALLY_TESTS_CUDA_EMULATION_CUDA_THREADS_H_
#define RALLY_TESTS_CUDA_EMULATION_CUDA_THREADS_H_

#include <bit>
#include <cstdint>
#include <source_location>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/cuda_language.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/meeting.h"

namespace rally::emulation {

using Where = std::source_location;

template <typename T>
struct ShuffleOperand {
  T value;
  int from;
  T result;
  Where where;
};

template <typename T>
void ExchangeShuffle(WarpOperands operands) {
  for (void* p : operands) {
    if (p == nullptr) continue;
    auto& own = *static_cast<ShuffleOperand<T>*>(p);
    const void* source = operands[own.from];
    if (source == nullptr) {
      Fail(absl::StrCat("a shuffle reads lane ", own.from, ", which takes no part"), own.where);
    }
    own.result = static_cast<const ShuffleOperand<T>*>(source)->value;
  }
}

template <typename T>
T Shuffle(unsigned mask, T value, int from, const Where& where) {
  ShuffleOperand<T> operand{value, from, value, where};
  MeetWarp(mask, {"a shuffle", where}, &operand, &ExchangeShuffle<T>);
  return operand.result;
}

inline int Lane() { return CurrentThread().lane; }

// First lane of the segment of `width` that this lane belongs to.
inline int SegmentOf(int width, const Where& where) {
  if (width < 1 || width > kWarpLanes || !std::has_single_bit(static_cast<unsigned>(width))) {
    Fail(absl::StrCat("a shuffle of width ", width), where);
  }
  return Lane() & ~(width - 1);
}

// What every lane's operand holds after a vote.
struct VoteOperand {
  uint64_t value = 0;
  uint64_t result = 0;
};

// fold(the result so far, a lane's value), lane by lane.
template <auto kFold>
uint64_t Vote(unsigned mask, const char* op, uint64_t value, const Where& where) {
  VoteOperand operand{value};
  MeetWarp(mask, {op, where}, &operand, [](WarpOperands operands) {
    uint64_t result = 0;
    bool first = true;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      if (operands[lane] == nullptr) continue;
      const uint64_t own = static_cast<VoteOperand*>(operands[lane])->value;
      result = kFold(result, own, lane, first);
      first = false;
    }
    for (void* p : operands) {
      if (p != nullptr) static_cast<VoteOperand*>(p)->result = result;
    }
  });
  return operand.result;
}

// A reduction of 32-bit values by a function of two of them.
template <typename T, auto kReduce>
T Reduce(unsigned mask, T value, const Where& where) {
  constexpr auto kFold = [](uint64_t so_far, uint64_t own, int, bool first) -> uint64_t {
    if (first) return own;
    return static_cast<uint32_t>(kReduce(static_cast<T>(static_cast<uint32_t>(so_far)),
                                         static_cast<T>(static_cast<uint32_t>(own))));
  };
  return static_cast<T>(static_cast<uint32_t>(
      Vote<kFold>(mask, "a reduction", static_cast<uint32_t>(value), where)));
}

}  // namespace rally::emulation

// --- Barriers

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  rally::emulation::MeetBlock(rally::emulation::Combine::kNone, 0, {"__syncthreads", where});
}
inline int __syncthreads_or(int x,
                            std::source_location where = std::source_location::current()) {
  return rally::emulation::MeetBlock(rally::emulation::Combine::kAny, x,
                                     {"__syncthreads_or", where});
}
inline int __syncthreads_and(int x,
                             std::source_location where = std::source_location::current()) {
  return rally::emulation::MeetBlock(rally::emulation::Combine::kAll, x,
                                     {"__syncthreads_and", where});
}
inline int __syncthreads_count(int x,
                               std::source_location where = std::source_location::current()) {
  return rally::emulation::MeetBlock(rally::emulation::Combine::kCount, x,
                                     {"__syncthreads_count", where});
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location where = std::source_location::current()) {
  int nothing = 0;
  rally::emulation::MeetWarp(mask, {"__syncwarp", where}, &nothing,
                             [](rally::emulation::WarpOperands) {});
}

// --- Shuffles

template <typename T>
T __shfl_sync(unsigned mask, T value, int from, int width = warpSize,
              std::source_location where = std::source_location::current()) {
  const int segment = rally::emulation::SegmentOf(width, where);
  return rally::emulation::Shuffle(mask, value, segment + (from & (width - 1)), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  std::source_location where = std::source_location::current()) {
  const int segment = rally::emulation::SegmentOf(width, where);
  const int own = rally::emulation::Lane();
  // Lanes of earlier segments may be read, later ones may not.
  const int from = own ^ lane_mask;
  return rally::emulation::Shuffle(mask, value, from < segment + width ? from : own, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 std::source_location where = std::source_location::current()) {
  const int segment = rally::emulation::SegmentOf(width, where);
  const int own = rally::emulation::Lane();
  const int from = own - static_cast<int>(delta);
  return rally::emulation::Shuffle(mask, value, from >= segment ? from : own, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   std::source_location where = std::source_location::current()) {
  const int segment = rally::emulation::SegmentOf(width, where);
  const int own = rally::emulation::Lane();
  const int from = own + static_cast<int>(delta);
  return rally::emulation::Shuffle(mask, value, from < segment + width ? from : own, where);
}

// --- Votes

inline unsigned __ballot_sync(unsigned mask, int x,
                              std::source_location where = std::source_location::current()) {
  constexpr auto kFold = [](uint64_t so_far, uint64_t own, int lane, bool) {
    return so_far | own << lane;
  };
  return static_cast<unsigned>(
      rally::emulation::Vote<kFold>(mask, "__ballot_sync", x != 0 ? 1 : 0, where));
}
inline int __any_sync(unsigned mask, int x,
                      std::source_location where = std::source_location::current()) {
  constexpr auto kFold = [](uint64_t so_far, uint64_t own, int, bool) { return so_far | own; };
  return static_cast<int>(
      rally::emulation::Vote<kFold>(mask, "__any_sync", x != 0 ? 1 : 0, where));
}
inline int __all_sync(unsigned mask, int x,
                      std::source_location where = std::source_location::current()) {
  constexpr auto kFold = [](uint64_t so_far, uint64_t own, int, bool first) {
    return first ? own : so_far & own;
  };
  return static_cast<int>(
      rally::emulation::Vote<kFold>(mask, "__all_sync", x != 0 ? 1 : 0, where));
}
template <typename T>
T __reduce_add_sync(unsigned mask, T x,
                    std::source_location where = std::source_location::current()) {
  constexpr auto kAdd = [](T a, T b) {
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  };
  return rally::emulation::Reduce<T, kAdd>(mask, x, where);
}
template <typename T>
T __reduce_min_sync(unsigned mask, T x,
                    std::source_location where = std::source_location::current()) {
  constexpr auto kMin = [](T a, T b) { return b < a ? b : a; };
  return rally::emulation::Reduce<T, kMin>(mask, x, where);
}
template <typename T>
T __reduce_max_sync(unsigned mask, T x,
                    std::source_location where = std::source_location::current()) {
  constexpr auto kMax = [](T a, T b) { return a < b ? b : a; };
  return rally::emulation::Reduce<T, kMax>(mask, x, where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned x,
                                 std::source_location where = std::source_location::current()) {
  constexpr auto kOr = [](unsigned a, unsigned b) { return a | b; };
  return rally::emulation::Reduce<unsigned, kOr>(mask, x, where);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned x,
                                  std::source_location where = std::source_location::current()) {
  constexpr auto kAnd = [](unsigned a, unsigned b) { return a & b; };
  return rally::emulation::Reduce<unsigned, kAnd>(mask, x, where);
}

// --- Fences, and a pause. Memory is sequentially consistent here.

inline void __threadfence() { rally::emulation::Wave::Current().PassSometimes(); }
inline void __threadfence_block() { rally::emulation::Wave::Current().PassSometimes(); }
inline void __threadfence_system() { rally::emulation::Wave::Current().PassSometimes(); }
inline void __nanosleep(unsigned) { rally::emulation::Wave::Current().Pass(); }

#endif  // RALLY_TESTS_CUDA_EMULATION_CUDA_THREADS_H_
