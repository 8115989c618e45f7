// What a kernel does wrong ends the program with a message that says which thread of which kernel
// did it: a test double has no way to go on from there.
#ifndef RALLY_TESTS_CUDA_EMULATION_FAILURE_H_
#define RALLY_TESTS_CUDA_EMULATION_FAILURE_H_

#include <source_location>
#include <string>

namespace rally::emulation {

[[noreturn]] void Fail(const std::string& what,
                       std::source_location where = std::source_location::current());

// Turns accesses to memory that is not there into such messages. Once a process; idempotent.
void ReportInvalidAccesses();

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_FAILURE_H_
