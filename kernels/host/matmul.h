// Weights of the host device and the matrix products with them.
#ifndef RALLY_KERNELS_HOST_MATMUL_H_
#define RALLY_KERNELS_HOST_MATMUL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/host/onednn_matmul.h"
#include "kernels/ops.h"

namespace rally {

enum class WeightLayout {
  kPanels,    // panel_matmul.h; needs AVX-512
  kRowMajor,  // W (n, k) as it is; fp32 only
};

struct HostWeight final : Weight {
  size_t size_bytes() const override { return buffer->size_bytes(); }

  WeightLayout layout = WeightLayout::kRowMajor;
  std::unique_ptr<Buffer> buffer;
  std::shared_ptr<OneDnnPlans> plans;
};

// A matrix product with the plan for row counts that oneDNN serves; null where none comes.
struct PlannedMatmul {
  MatmulArgs args;
  const OneDnnPlan* plan = nullptr;
};

// Start-up only: makes the plan.
absl::StatusOr<PlannedMatmul> PlanMatmul(const MatmulArgs& args);
absl::Status RunMatmul(const PlannedMatmul& planned);

absl::StatusOr<std::unique_ptr<Weight>> MakeHostWeight(Device& device, DType dtype,
                                                       WeightLayout layout,
                                                       const RowSource& source);
// The layout that this CPU runs best.
WeightLayout HostWeightLayout();

absl::Status UploadToHost(DType dtype, const RowSource& source, void* dst);

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_MATMUL_H_
