// Stands for read_bandwidth.cu in a build without CUDA, where no CUDA device can be opened either.
#include "absl/status/status.h"
#include "tests/bench/decode/read_bandwidth.h"

namespace rally {

absl::StatusOr<double> CudaReadBandwidth(int, size_t) {
  return absl::UnavailableError("this program was built without CUDA");
}

}  // namespace rally
