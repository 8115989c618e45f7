#include "kernels/step_record.h"

namespace rally {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t Align(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Hands out consecutive aligned arrays; with base null it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  T* Take(int64_t count) {
    T* p = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset_);
    offset_ += Align(sizeof(T) * static_cast<size_t>(count));
    return p;
  }
  size_t offset() const { return offset_; }

 private:
  std::byte* base_;
  size_t offset_ = 0;
};

size_t CarveRecord(std::byte* base, const StepLimits& limits, StepRecordView* view) {
  Carver carver(base);
  view->header = carver.Take<StepHeader>(1);
  view->rows = carver.Take<StepRow>(limits.max_rows);
  view->samples = carver.Take<StepSample>(limits.max_samples);
  view->tokens = carver.Take<int32_t>(limits.max_tokens);
  view->resets = carver.Take<SlotReset>(limits.max_rows);
  view->block_updates = carver.Take<BlockUpdate>(limits.max_block_updates);
  return carver.offset();
}

}  // namespace

StepRecordView::StepRecordView(std::byte* base, const StepLimits& limits) {
  CarveRecord(base, limits, this);
}

size_t StepRecordView::Bytes(const StepLimits& limits) {
  StepRecordView view;
  return CarveRecord(nullptr, limits, &view);
}

size_t StepRecordView::UsedBytes() const {
  const auto* begin = reinterpret_cast<const std::byte*>(header);
  const auto* end = reinterpret_cast<const std::byte*>(block_updates + header->block_update_count);
  return static_cast<size_t>(end - begin);
}

StepOutcomeView::StepOutcomeView(std::byte* base, const StepLimits& limits) {
  Carver carver(base);
  header = carver.Take<OutcomeHeader>(1);
  rows = carver.Take<OutcomeRow>(limits.max_samples);
}

size_t StepOutcomeView::Bytes(const StepLimits& limits) {
  return Align(sizeof(OutcomeHeader)) +
         Align(sizeof(OutcomeRow) * static_cast<size_t>(limits.max_samples));
}

}  // namespace rally
