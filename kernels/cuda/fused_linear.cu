// out = act(norm(x) W^T + bias), or out += x W^T + bias, for 9 to some hundred rows of a small
// model, in bf16 and fp16: one kernel instead of three. What such a product costs is a kernel
// boundary and fetching x: the weights of a block are in shared memory before x is ready, products
// themselves take a microsecond (linear_tiles_kernel.cuh).
//
// The plan weighs, for each tile size and number of shares that fits the shared memory, the bytes
// that a block fetches after the wait. Wide models (a row of x that is normed must fit the
// registers of a warp), and products of which one block would have to compute several row-heavy
// tiles, stay with cuBLASLt, whose kernels are better once arithmetic counts.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/linear_tiles_kernel.cuh"

namespace rally {
namespace {

constexpr int32_t kMaxTileRows = 64;

struct LinearPlan {
  int32_t row_tiles = 0;
  int32_t column_blocks = 0;
  int32_t column_tiles = 0;
  int32_t shares = 1;
  int32_t depth = 0;
  int32_t weight_tiles = 1;
  size_t shared_bytes = 0;
  int64_t cost = 0;  // bytes that a block waits for
  void (*launch)(Stream&, const LinearTileArgs&, const LinearPlan&) = nullptr;
};

template <typename T, typename Tile>
void LaunchTiles(Stream& stream, const LinearTileArgs& a, const LinearPlan& plan) {
  const auto kernel = &LinearTilesKernel<T, Tile>;
  AllowSharedBytes(stream, "fused_linear", kernel, kMaxSharedBytes);
  LaunchKernel(stream, "fused_linear", kernel,
               {.grid = dim3(plan.column_blocks, plan.row_tiles, plan.shares),
                .block = kLinearThreads,
                .shared_bytes = plan.shared_bytes,
                .cluster_z = plan.shares},
               a);
}

// Weighs one tile size and number of shares, and keeps it if it is the cheapest so far.
template <typename T, typename Tile>
void Consider(const FusedLinearArgs& a, int32_t multiprocessors, int32_t shares, LinearPlan* best) {
  constexpr int64_t kClusterCost = 24 << 10;  // a meeting of the cluster, in bytes
  constexpr int64_t kTileCost = 16 << 10;     // two barriers and the stores of a further tile
  const bool normed = a.norm_weight != nullptr;
  LinearPlan plan = {.shares = shares, .launch = &LaunchTiles<T, Tile>};
  plan.row_tiles = static_cast<int32_t>(CeilDiv(a.rows.max, Tile::kRows));
  plan.column_tiles = static_cast<int32_t>(CeilDiv(a.w->n, Tile::kColumns));
  plan.depth = static_cast<int32_t>(CeilDiv(a.w->k, shares * kLinearDepthStep)) * kLinearDepthStep;
  if (plan.depth * (shares - 1) >= a.w->k) return;
  const int32_t columns_at_once = multiprocessors / (plan.row_tiles * shares);
  if (columns_at_once == 0) return;
  plan.column_blocks = std::min(plan.column_tiles, columns_at_once);
  const int64_t rounds = CeilDiv(plan.column_tiles, plan.column_blocks);
  if (rounds > 1 && (shares > 1 || plan.row_tiles > 1)) return;
  plan.weight_tiles = rounds > 1 ? 2 : 1;
  plan.shared_bytes = Tile::SharedBytes(plan.depth, plan.weight_tiles);
  if (plan.shared_bytes > kMaxSharedBytes) return;
  plan.cost = int64_t{Tile::kRows} * plan.depth * (normed ? 4 : 2) +
              int64_t{Tile::kColumns} * plan.depth / 2 + (shares > 1 ? kClusterCost : 0) +
              (rounds - 1) * (int64_t{Tile::kColumns} * plan.depth * 2 + kTileCost);
  if (best->launch == nullptr || plan.cost < best->cost) *best = plan;
}

template <typename T, int kRows>
void ConsiderRows(const FusedLinearArgs& a, int32_t multiprocessors, LinearPlan* best) {
  if (kRows / 2 >= a.rows.max && kRows > 16) return;  // half of it would do
  for (int32_t shares = 1; shares <= kMaxLinearShares; shares *= 2) {
    if (shares > 1 && a.norm_weight != nullptr) return;
    Consider<T, LinearTile<kRows, 8>>(a, multiprocessors, shares, best);
    Consider<T, LinearTile<kRows, 16>>(a, multiprocessors, shares, best);
    Consider<T, LinearTile<kRows, 24>>(a, multiprocessors, shares, best);
    Consider<T, LinearTile<kRows, 32>>(a, multiprocessors, shares, best);
    if constexpr (kRows == kMaxTileRows) {
      Consider<T, LinearTile<kRows, 48>>(a, multiprocessors, shares, best);
      Consider<T, LinearTile<kRows, 72>>(a, multiprocessors, shares, best);
    }
  }
}

template <typename T>
LinearPlan MakePlan(const FusedLinearArgs& a, int32_t multiprocessors) {
  LinearPlan best;
  ConsiderRows<T, 16>(a, multiprocessors, &best);
  ConsiderRows<T, 32>(a, multiprocessors, &best);
  ConsiderRows<T, 64>(a, multiprocessors, &best);
  return best;
}

bool Takes(const FusedLinearArgs& a) {
  const DType dtype = a.w->dtype;
  if (dtype == DType::kF32 || a.rows.max <= 0 || a.w->k % kLinearDepthStep != 0) return false;
  if (a.norm_weight == nullptr) return a.x.dtype == dtype && HoldsPacks(a.x, 8);
  return a.x.dtype == DType::kF32 && a.w->k <= kMaxNormedWidth && HoldsPacks(a.x, 4);
}

LinearTileArgs ArgsFor(const FusedLinearArgs& a, const LinearPlan& plan) {
  const auto& w = static_cast<const CudaWeight&>(*a.w);
  return {.rows = a.rows,
          .samples = a.samples,
          .x = a.x,
          .norm_weight = a.norm_weight,
          .norm_bias = a.norm_bias,
          .norm_epsilon = a.norm_epsilon,
          .weight = w.buffer->data(),
          .k = w.k,
          .weight_stride = w.stride,
          .bias = a.bias,
          .columns = a.gated != 0 ? w.n / 2 : w.n,
          .activated = a.activated,
          .activation = a.activation,
          .gated = a.gated,
          .accumulate = a.epilogue == Epilogue::kAccumulate ? 1 : 0,
          .out = a.out,
          .column_tiles = plan.column_tiles,
          .depth = plan.depth,
          .weight_tiles = plan.weight_tiles};
}

}  // namespace

bool EnqueueFusedLinear(Stream& stream, const FusedLinearArgs& a) {
  if (!Takes(a)) return false;
  const int32_t multiprocessors = OnCuda(stream).multiprocessors();
  const LinearPlan plan = a.w->dtype == DType::kBF16 ? MakePlan<__nv_bfloat16>(a, multiprocessors)
                                                     : MakePlan<__half>(a, multiprocessors);
  if (plan.launch == nullptr) return false;
  plan.launch(stream, ArgsFor(a, plan), plan);
  return true;
}

}  // namespace rally
