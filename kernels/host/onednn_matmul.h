// The one place that knows oneDNN: matrix products with many rows.
//
// oneDNN compiles a kernel for each row count. A plan holds kernels for a ladder of row counts,
// made at start-up; a product runs the lowest rung that holds its rows, and computes up to half as
// many rows again that nobody reads.
#ifndef RALLY_KERNELS_HOST_ONEDNN_MATMUL_H_
#define RALLY_KERNELS_HOST_ONEDNN_MATMUL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/tensor.h"

namespace rally {

struct OneDnnShape {
  int32_t min_rows = 0;  // fewer rows never come
  int32_t max_rows = 0;  // rows of the matrices x and out
  int32_t n = 0;
  int32_t k = 0;
  DType dtype = DType::kF32;  // of x and the weight
  DType out_dtype = DType::kF32;
  int32_t x_stride = 0;
  int32_t out_stride = 0;
  bool panels = false;  // the weight lies as in panel_matmul.h, else as W (n, k) row-major
  bool bias = false;
  bool accumulate = false;

  bool operator==(const OneDnnShape&) const = default;
};

// out = x W^T + bias, or out += ...
class OneDnnPlan {
 public:
  virtual ~OneDnnPlan() = default;
  // 1 <= rows <= max_rows. One thread at a time, one that has the plan's number of OpenMP threads.
  virtual absl::Status Run(int32_t rows, void* x, void* weight, void* bias, void* out) const = 0;
};

// The plans of one device; weights of one shape share theirs. Thread-compatible.
class OneDnnPlans {
 public:
  // `threads`: OpenMP threads of the thread that runs the plans.
  explicit OneDnnPlans(int threads) : threads_(threads) {}

  // Start-up only. The plan lives as long as this object.
  absl::StatusOr<const OneDnnPlan*> Get(const OneDnnShape& shape);

 private:
  struct Entry {
    OneDnnShape shape;
    std::unique_ptr<OneDnnPlan> plan;
  };
  const int threads_;
  std::vector<Entry> entries_;
};

// True where oneDNN has matrix tiles (AMX) to run on, which changes from how many rows on it pays.
bool OneDnnHasTiles();

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_ONEDNN_MATMUL_H_
