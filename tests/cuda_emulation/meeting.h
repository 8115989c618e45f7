// Where threads meet: warp-wide operations, the barriers of a block, the barrier of a cluster.
#ifndef RALLY_TESTS_CUDA_EMULATION_MEETING_H_
#define RALLY_TESTS_CUDA_EMULATION_MEETING_H_

#include <cstdint>
#include <source_location>

#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {

// Waits for all living lanes of `mask`, then the last one calls `exchange` for all of them. They
// must have come with the same mask to the same line.
void MeetWarp(uint32_t mask, const Wait& wait, void* operand, void (*exchange)(WarpOperands));
// __syncthreads: all threads of the block that live, which must come to the same line. Returns what
// `combine` makes of their predicates.
int MeetBlock(Combine combine, int predicate, const Wait& wait);
// bar.sync: `threads` threads of the block, in whole warps.
void MeetNamed(int id, int threads, const Wait& wait);
void MeetCluster(const Wait& wait);
// Where block `rank` of the cluster has what this one has at `p` in dynamic shared memory.
void* MapToBlock(void* p, uint32_t rank, std::source_location where);
// Meetings that have waited for this thread alone take place without it.
void MeetWithout(Thread& ended);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_MEETING_H_
