// The instructions that CUDA C++ has no name for, one small function each (PTX ISA 9.0).
//
// Shared-memory addresses are generic pointers here; each function converts what its instruction
// wants. Everything warp-wide is called by all 32 lanes.
#ifndef RALLY_KERNELS_CUDA_PTX_CUH_
#define RALLY_KERNELS_CUDA_PTX_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace rally {

// The dynamic shared memory of the block, aligned to 128 bytes.
__device__ inline unsigned char* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  return dynamic_shared;
}

// --- Programmatic dependent launch: see LaunchKernel for the rules.

// Blocks until every earlier kernel of the stream has ended and its stores are visible.
__device__ inline void WaitForInputs() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the next kernel's blocks be scheduled while this one still runs.
__device__ inline void LetNextStart() { asm volatile("griddepcontrol.launch_dependents;" :::); }

// --- Asynchronous copies of 16 bytes from global to shared memory, by the thread that asks.

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 16 bytes, or writes zeros where `valid` is false (`from` is not read then). Passes L1 by.
__device__ inline void CopyAsync16(void* to, const void* from, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Asks for the line of `p` to be brought into the L1 or the L2 cache.
__device__ inline void PrefetchL1(const void* p) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
}
__device__ inline void PrefetchL2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// --- Barriers in shared memory (mbarrier), and bulk copies that complete on them.

using SharedBarrier = uint64_t;

__device__ inline void InitBarrier(SharedBarrier* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
// Makes initialised barriers visible to the copy engine; then a __syncthreads for the others.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void Arrive(SharedBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Arrives and announces `bytes` that copies will bring before the phase can end.
__device__ inline void ArriveExpecting(SharedBarrier* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
// Blocks until the phase of this parity has ended (a new barrier is in phase 0).
__device__ inline void WaitBarrier(SharedBarrier* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
// `bytes`, a multiple of 16, from global to shared memory, both aligned to 16, by the copy engine.
__device__ inline void CopyBulk(void* to, const void* from, uint32_t bytes,
                                SharedBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
// A barrier of `threads` threads of the block, whole warps; `id` 1 to 15.
__device__ inline void SyncThreads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- Flags and counters in global memory, between blocks.

__device__ inline void AddRelease(uint32_t* counter, uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}
__device__ inline uint32_t LoadAcquire(const uint32_t* counter) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

// --- Tensor cores: C (16, 8) fp32 += A (16, 16) B (16, 8).
//
// With g = lane / 4 and t = lane % 4, a lane holds
//   a[0] = A[g][2t, 2t+1]    a[1] = A[g+8][2t, 2t+1]    a[2] = A[g][2t+8, +9]    a[3] =
//   A[g+8][2t+8, +9] b[0] = B[2t, 2t+1][g]    b[1] = B[2t+8, 2t+9][g] c[0..1] = C[g][2t, 2t+1]
//   c[2..3] = C[g+8][2t, 2t+1]

template <typename T>
__device__ inline void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
template <>
__device__ inline void MultiplyTile<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void MultiplyTile<__half>(float (&c)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 8 tiles of two-byte elements. Lane l gives the address of row l % 8 of tile l / 8, 16
// bytes, aligned to 16. Of tile i, lane l receives row l / 4, elements 2 (l % 4) and the next.
__device__ inline void LoadTiles(const void* row, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// The same, each tile transposed: lane l receives elements 2 (l % 4) and the next of column l / 4.
__device__ inline void LoadTilesTransposed(const void* row, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// Two values rounded to T, the first in the low half.
template <typename T>
__device__ inline uint32_t PackPair(float low, float high);
template <>
__device__ inline uint32_t PackPair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ inline uint32_t PackPair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// --- Clusters: blocks that see each other's shared memory.

__device__ inline uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Where block `rank` of the cluster has what this block has at `p` in shared memory.
template <typename T>
__device__ inline T* InBlockOfCluster(T* p, uint32_t rank) {
  uint64_t other;
  asm volatile("mapa.u64 %0, %1, %2;"
               : "=l"(other)
               : "l"(reinterpret_cast<uint64_t>(p)), "r"(rank));
  return reinterpret_cast<T*>(other);
}
// All threads of the cluster; what they wrote to shared memory before is visible after.
__device__ inline void SyncCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}

// The same in two halves, so that work can lie between: nobody passes the second before all blocks
// have reached the first. Once it is passed all blocks have started, as who writes to them needs.
__device__ inline void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
__device__ inline void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// 2^x, off by some ulp; 0 where that is below the normal range.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Nanoseconds of the clock that all SMs share (it ticks every 32 ns on an H200).
__device__ inline int64_t GlobalNanos() {
  int64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_PTX_CUH_
