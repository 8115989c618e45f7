#include "engine/model/workspace.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace rally {
namespace {

constexpr size_t kAlign = 256;

// Hands out consecutive aligned arrays; with base null it only counts.
class Planner {
 public:
  explicit Planner(std::byte* base) : base_(base) {}

  void* Take(size_t bytes) {
    void* p = base_ == nullptr ? nullptr : base_ + offset_;
    offset_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return p;
  }
  // Rows start at multiples of 8 elements: whole vector loads, and the fast paths of libraries.
  Matrix TakeMatrix(int64_t rows, int32_t cols, DType dtype) {
    const int32_t stride = (cols + 7) / 8 * 8;
    const size_t bytes =
        static_cast<size_t>(rows) * static_cast<size_t>(stride) * DTypeBytes(dtype);
    return {.data = Take(bytes), .dtype = dtype, .cols = cols, .stride = stride};
  }
  size_t offset() const { return offset_; }

 private:
  std::byte* const base_;
  size_t offset_ = 0;
};

size_t Plan(std::byte* base, const ModelConfig& c, DType dtype, const StepLimits& limits,
            Workspace* w) {
  Planner planner(base);
  const int64_t tokens = limits.max_tokens;
  const int64_t samples = limits.max_samples;
  w->tokens = static_cast<TokenMeta*>(planner.Take(sizeof(TokenMeta) * limits.max_tokens));
  w->residual = planner.TakeMatrix(tokens, c.width, DType::kF32);
  w->normed = planner.TakeMatrix(tokens, c.width, dtype);
  w->qkv = planner.TakeMatrix(tokens, c.qkv_width(), dtype);
  w->attended = planner.TakeMatrix(tokens, c.q_width(), dtype);
  w->up = planner.TakeMatrix(tokens, c.gated ? 2 * c.ffn_width : c.ffn_width, dtype);
  w->activated = planner.TakeMatrix(tokens, c.ffn_width, dtype);
  w->last = planner.TakeMatrix(samples, c.width, DType::kF32);
  w->last_normed = planner.TakeMatrix(samples, c.width, dtype);
  w->logits = planner.TakeMatrix(samples, c.vocab_size, DType::kF32);
  return planner.offset();
}

}  // namespace

absl::StatusOr<Workspace> Workspace::Create(Device& device, const ModelConfig& config, DType dtype,
                                            const StepLimits& limits) {
  Workspace workspace;
  const size_t bytes = Plan(nullptr, config, dtype, limits, &workspace);
  RALLY_ASSIGN_OR_RETURN(workspace.buffer, device.Allocate(Space::kDevice, bytes));
  Plan(workspace.buffer->data(), config, dtype, limits, &workspace);
  return workspace;
}

}  // namespace rally
