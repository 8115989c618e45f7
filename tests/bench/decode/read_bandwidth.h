// What a GPU's memory can do: the limit that a decode step is compared with.
#ifndef RALLY_TESTS_BENCH_DECODE_READ_BANDWIDTH_H_
#define RALLY_TESTS_BENCH_DECODE_READ_BANDWIDTH_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace rally {

// Bytes a second of reading `bytes` of device memory once with a plain kernel; the best of ten.
absl::StatusOr<double> CudaReadBandwidth(int ordinal, size_t bytes);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_DECODE_READ_BANDWIDTH_H_
