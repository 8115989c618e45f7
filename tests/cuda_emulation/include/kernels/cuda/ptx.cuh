// Stands for kernels/cuda/ptx.cuh in the emulation: the same functions, on the fibers of a wave.
#ifndef RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_PTX_CUH_
#define RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_PTX_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <source_location>

#include "kernels/host/host_clock.h"
#include "tests/cuda_emulation/cuda_atomics.h"
#include "tests/cuda_emulation/cuda_language.h"
#include "tests/cuda_emulation/cuda_math.h"
#include "tests/cuda_emulation/cuda_threads.h"
#include "tests/cuda_emulation/shared_barrier.h"
#include "tests/cuda_emulation/tensor_core.h"
#include "tests/cuda_emulation/wave.h"

namespace rally {

inline unsigned char* DynamicShared() {
  return reinterpret_cast<unsigned char*>(emulation::CurrentBlock().shared.data);
}

// --- Programmatic dependent launch: kernels run one after the other here.

inline void WaitForInputs() { emulation::CurrentBlock().waited_for_inputs = true; }
inline void LetNextStart() {}

// --- Asynchronous copies

inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p));
}
inline void CopyAsync16(void* to, const void* from, bool valid = true,
                        std::source_location where = std::source_location::current()) {
  emulation::CurrentThread().copies.Start(to, from, valid, where);
}
inline void CommitCopies() { emulation::CurrentThread().copies.Commit(); }
template <int kPending>
inline void WaitForCopies() {
  emulation::CurrentThread().copies.Wait(kPending);
}

inline void PrefetchL1(const void*) {}
inline void PrefetchL2(const void*) {}

// --- Barriers in shared memory, bulk copies, named barriers

using SharedBarrier = uint64_t;

inline void InitBarrier(SharedBarrier* barrier, uint32_t arrivals,
                        std::source_location where = std::source_location::current()) {
  emulation::InitializeBarrier(barrier, arrivals, where);
}
inline void FenceBarrierInit() {}
inline void Arrive(SharedBarrier* barrier,
                   std::source_location where = std::source_location::current()) {
  emulation::ArriveAtBarrier(barrier, 0, where);
}
inline void ArriveExpecting(SharedBarrier* barrier, uint32_t bytes,
                            std::source_location where = std::source_location::current()) {
  emulation::ArriveAtBarrier(barrier, bytes, where);
}
inline void WaitBarrier(SharedBarrier* barrier, uint32_t parity,
                        std::source_location where = std::source_location::current()) {
  emulation::WaitForBarrier(barrier, parity, where);
}
inline void CopyBulk(void* to, const void* from, uint32_t bytes, SharedBarrier* barrier,
                     std::source_location where = std::source_location::current()) {
  emulation::Wave::Current().bulk_copies().Start(to, from, bytes, barrier, where);
}
inline void SyncThreads(int id, int threads,
                        std::source_location where = std::source_location::current()) {
  emulation::MeetNamed(id, threads, {"SyncThreads", where});
}

// --- Flags and counters in global memory

inline void AddRelease(uint32_t* counter, uint32_t value) {
  emulation::Wave::Current().PassSometimes();
  *counter += value;
  emulation::Wave::Current().NoteProgress();
}
// Polled, so others run first.
inline uint32_t LoadAcquire(const uint32_t* counter) {
  emulation::Wave::Current().Pass();
  return *counter;
}

// --- Tensor cores

template <typename T>
inline void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         std::source_location where = std::source_location::current()) {
  emulation::MultiplyTile<T>(c, a, b, where);
}
inline void LoadTiles(const void* row, uint32_t (&out)[4],
                      std::source_location where = std::source_location::current()) {
  emulation::LoadTiles(row, false, out, where);
}
inline void LoadTilesTransposed(const void* row, uint32_t (&out)[4],
                                std::source_location where = std::source_location::current()) {
  emulation::LoadTiles(row, true, out, where);
}

template <typename T>
inline uint32_t PackPair(float low, float high);
template <>
inline uint32_t PackPair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  std::memcpy(&bits, &pair, sizeof bits);
  return bits;
}
template <>
inline uint32_t PackPair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t bits;
  std::memcpy(&bits, &pair, sizeof bits);
  return bits;
}

// --- Clusters

inline uint32_t ClusterRank() {
  const emulation::Block& block = emulation::CurrentBlock();
  return static_cast<uint32_t>(&block - block.first_of_cluster);
}
template <typename T>
inline T* InBlockOfCluster(T* p, uint32_t rank,
                           std::source_location where = std::source_location::current()) {
  void* const own = const_cast<void*>(static_cast<const volatile void*>(p));
  return static_cast<T*>(emulation::MapToBlock(own, rank, where));
}
inline void SyncCluster(std::source_location where = std::source_location::current()) {
  emulation::MeetCluster({"SyncCluster", where});
}

inline void ArriveAtCluster() {}
inline void WaitForCluster(std::source_location where = std::source_location::current()) {
  emulation::MeetCluster({"WaitForCluster", where});
}

inline float Exp2(float x) { return exp2f(x); }

inline int64_t GlobalNanos() { return HostClockNanos(); }

}  // namespace rally

#endif  // RALLY_TESTS_CUDA_EMULATION_INCLUDE_KERNELS_CUDA_PTX_CUH_
