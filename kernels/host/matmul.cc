// Which of two matrix products runs is decided by the row count.
//
// Measured on two cores of an AMD Zen 4 (AVX512-BF16, no AMX; memory reads at 30 GB/s), all 121
// bf16 weights of SmolLM2-135M, 269 MB, one after the other:
//   rows                 1     2     4     8     12    16    32    64    128   512
//   own panels, ms       8.3   8.1   8.2   8.9   10.7  13.4  26.4  44.8  81.0  330
//   oneDNN 2.6, ms       11.5  12.0  9.7   10.5  12.7  14.5  28.5  46.3  81.3  321
// So the panels serve up to 64 rows, exactly as many as there are; where oneDNN has AMX tiles its
// products with more than 16 rows are faster.
#include "kernels/host/matmul.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "kernels/host/panel_matmul.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

int32_t MaxPanelRows() { return OneDnnHasTiles() ? 16 : 64; }

absl::Status CheckSource(DType dtype, const RowSource& source) {
  if (dtype == DType::kF16) {
    return absl::UnimplementedError("the host device computes in fp32 and bf16, not in fp16");
  }
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (source.rows() < 1 || source.cols() < 1 || source.rows() > kLimit || source.cols() > kLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter of ", source.rows(), " x ", source.cols(), " values"));
  }
  return absl::OkStatus();
}

}  // namespace

WeightLayout HostWeightLayout() {
  return HostHasAvx512() ? WeightLayout::kPanels : WeightLayout::kRowMajor;
}

absl::StatusOr<std::unique_ptr<Weight>> MakeHostWeight(Device& device, DType dtype,
                                                       WeightLayout layout,
                                                       const RowSource& source) {
  if (absl::Status status = CheckSource(dtype, source); !status.ok()) return status;
  if (dtype == DType::kBF16 && (layout != WeightLayout::kPanels || !HostHasBf16())) {
    return absl::UnimplementedError("bf16 on the host device needs a CPU with AVX512-BF16");
  }
  if (dtype == DType::kBF16 && source.cols() % 2 != 0) {
    return absl::UnimplementedError(absl::StrCat("bf16 weight with odd depth ", source.cols()));
  }
  auto weight = std::make_unique<HostWeight>();
  weight->n = static_cast<int32_t>(source.rows());
  weight->k = static_cast<int32_t>(source.cols());
  weight->dtype = dtype;
  weight->layout = layout;
  weight->plans = HostPlans(device);
  const bool panels = layout == WeightLayout::kPanels;
  const size_t element = DTypeBytes(dtype);
  const int64_t elements =
      panels ? PanelElements(weight->n, weight->k, dtype) : int64_t{weight->n} * weight->k;
  auto buffer = device.Allocate(Space::kDevice, static_cast<size_t>(elements) * element);
  if (!buffer.ok()) return buffer.status();
  weight->buffer = *std::move(buffer);
  if (!panels) {
    if (absl::Status s = UploadToHost(dtype, source, weight->buffer->data()); !s.ok()) return s;
    return weight;
  }
  std::vector<float> rows(static_cast<size_t>(kPanelCols) * weight->k);
  const size_t panel_bytes = kPanelCols * PanelDepth(weight->k, dtype) * element;
  std::byte* panel = weight->buffer->data();
  for (int32_t first = 0; first < weight->n; first += kPanelCols, panel += panel_bytes) {
    const int32_t count = std::min(kPanelCols, weight->n - first);
    if (absl::Status s = source.Read(first, count, rows.data()); !s.ok()) return s;
    PackPanel(rows.data(), count, weight->k, dtype, panel);
  }
  return weight;
}

absl::Status UploadToHost(DType dtype, const RowSource& source, void* dst) {
  if (absl::Status status = CheckSource(dtype, source); !status.ok()) return status;
  if (dtype == DType::kF32) return source.Read(0, source.rows(), static_cast<float*>(dst));
  constexpr int64_t kRowsAtOnce = 64;
  const int64_t cols = source.cols();
  std::vector<float> rows(static_cast<size_t>(kRowsAtOnce * cols));
  auto* out = static_cast<BFloat16*>(dst);
  for (int64_t first = 0; first < source.rows(); first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, source.rows() - first);
    if (absl::Status s = source.Read(first, count, rows.data()); !s.ok()) return s;
    for (int64_t i = 0; i < count * cols; ++i) {
      *out++ = FromFloat<BFloat16>(rows[static_cast<size_t>(i)]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PlannedMatmul> PlanMatmul(const MatmulArgs& args) {
  const auto& weight = static_cast<const HostWeight&>(*args.w);
  const bool panels = weight.layout == WeightLayout::kPanels;
  PlannedMatmul planned{args, nullptr};
  if (panels && args.max_rows <= MaxPanelRows()) return planned;
  const auto plan = weight.plans->Get({.min_rows = panels ? MaxPanelRows() + 1 : 1,
                                       .max_rows = args.max_rows,
                                       .n = weight.n,
                                       .k = weight.k,
                                       .dtype = weight.dtype,
                                       .out_dtype = args.out.dtype,
                                       .x_stride = args.x.stride,
                                       .out_stride = args.out.stride,
                                       .panels = panels,
                                       .bias = args.bias != nullptr,
                                       .accumulate = args.epilogue == Epilogue::kAccumulate});
  if (!plan.ok()) return plan.status();
  planned.plan = *plan;
  return planned;
}

absl::Status RunMatmul(const PlannedMatmul& planned) {
  const MatmulArgs& a = planned.args;
  const auto& weight = static_cast<const HostWeight&>(*a.w);
  const int32_t rows = *a.rows;
  if (rows == 0) return absl::OkStatus();
  if (weight.layout == WeightLayout::kPanels && rows <= MaxPanelRows()) {
    PanelMatmul({.rows = rows,
                 .n = weight.n,
                 .k = weight.k,
                 .x = a.x,
                 .panels = weight.buffer->data(),
                 .bias = a.bias,
                 .accumulate = a.epilogue == Epilogue::kAccumulate,
                 .out = a.out});
    return absl::OkStatus();
  }
  return planned.plan->Run(rows, a.x.data, weight.buffer->data(), const_cast<float*>(a.bias),
                           a.out.data);
}

}  // namespace rally
