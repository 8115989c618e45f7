// The mbarriers: a phase ends when all arrivals of it and all bytes that were announced have come.
#ifndef RALLY_TESTS_CUDA_EMULATION_SHARED_BARRIER_H_
#define RALLY_TESTS_CUDA_EMULATION_SHARED_BARRIER_H_

#include <cstdint>
#include <source_location>

namespace rally::emulation {

void InitializeBarrier(uint64_t* barrier, uint32_t arrivals, std::source_location where);
// Announces `bytes` and then arrives.
void ArriveAtBarrier(uint64_t* barrier, uint32_t bytes, std::source_location where);
void WaitForBarrier(const uint64_t* barrier, uint32_t parity, std::source_location where);

// A failure where there is no initialised barrier in the block's shared memory.
void CheckBarrier(const uint64_t* barrier, std::source_location where);
// What a landing copy reports.
void CompleteBytes(uint64_t* barrier, uint32_t bytes);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_SHARED_BARRIER_H_
