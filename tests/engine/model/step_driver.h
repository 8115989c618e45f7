// Runs single steps of a model on a device, without an engine: builds the record, waits, and hands
// out the outcome and the logits.
#ifndef RALLY_TESTS_ENGINE_MODEL_STEP_DRIVER_H_
#define RALLY_TESTS_ENGINE_MODEL_STEP_DRIVER_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/transformer.h"
#include "kernels/device/device.h"

namespace rally {

// A sequence's share of a step. A slot's blocks lie in reverse order, so that a wrong table shows.
struct DriverRow {
  int32_t slot = 1;
  int32_t first_position = 0;
  std::vector<int32_t> tokens;
  bool sample_every_token = false;  // else the last one
};

class StepDriver {
 public:
  // `max_rows` slots besides the null slot.
  StepDriver(Device& device, Transformer& model, int32_t max_rows, int32_t max_tokens,
             int32_t max_samples, int32_t block_tokens)
      : device_(device), model_(model) {
    const int32_t blocks_per_slot = (model.context_length() + block_tokens - 1) / block_tokens;
    limits_ = {.max_rows = max_rows,
               .max_tokens = max_tokens,
               .max_samples = max_samples,
               .max_block_updates = max_rows * blocks_per_slot,
               .slot_count = max_rows + 1,
               .max_blocks_per_slot = blocks_per_slot};
    EXPECT_TRUE(model.Prepare(limits_, block_tokens).ok());
    const size_t kv_blocks = 1 + static_cast<size_t>(max_rows * blocks_per_slot);
    record_ = Allocate(StepRecordView::Bytes(limits_));
    outcome_ = Allocate(StepOutcomeView::Bytes(limits_));
    slots_ = Allocate(sizeof(SlotState) * static_cast<size_t>(limits_.slot_count));
    block_tables_ = Allocate(sizeof(int32_t) * static_cast<size_t>(limits_.block_table_entries()));
    kv_ = Allocate(static_cast<size_t>(model.KvBlockBytes(block_tokens)) * kv_blocks);
    stream_ = *device.NewStream();
    tensors_ = {.record = StepRecordView(record_->data(), limits_),
                .outcome = StepOutcomeView(outcome_->data(), limits_),
                .tables = {reinterpret_cast<SlotState*>(slots_->data()),
                           reinterpret_cast<int32_t*>(block_tables_->data()), blocks_per_slot},
                .kv_base = kv_->data()};
  }

  // Rows whose position is 0 start their slot anew, greedy.
  void Run(std::span<const DriverRow> rows) {
    const StepRecordView& record = tensors_.record;
    *record.header = {.step = ++step_, .row_count = static_cast<int32_t>(rows.size())};
    for (size_t r = 0; r < rows.size(); ++r) AddRow(rows[r], record, static_cast<int32_t>(r));
    model_.Forward(*stream_, tensors_);
    ASSERT_TRUE(device_.Sync(*stream_).ok()) << device_.status();
    ASSERT_EQ(tensors_.outcome.header->step, step_);
    ASSERT_EQ(tensors_.outcome.header->row_count, record.header->sample_count);
    ASSERT_GE(tensors_.outcome.header->end_ns, tensors_.outcome.header->start_ns);
  }

  const OutcomeRow& outcome(int32_t sample) const { return tensors_.outcome.rows[sample]; }
  std::span<const float> logits(int32_t sample) const {
    return {model_.logits().row<float>(sample), static_cast<size_t>(model_.vocab_size())};
  }
  std::span<std::byte> kv() { return {kv_->data(), kv_->size_bytes()}; }
  const StepTensors& tensors() const { return tensors_; }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Buffer> Allocate(size_t bytes) {
    return *device_.Allocate(Space::kDevice, bytes);
  }

  void AddRow(const DriverRow& row, const StepRecordView& record, int32_t index) {
    StepHeader& header = *record.header;
    const auto count = static_cast<int32_t>(row.tokens.size());
    record.rows[index] = {row.slot, header.token_count, count, row.first_position};
    if (row.first_position == 0) {
      record.resets[header.reset_count++] = {row.slot, SlotState{.generation = 7}};
      const int32_t blocks = limits_.max_blocks_per_slot;
      for (int32_t i = 0; i < blocks; ++i) {
        record.block_updates[header.block_update_count++] = {row.slot, i, row.slot * blocks - i};
      }
    }
    for (int32_t i = 0; i < count; ++i) {
      record.tokens[header.token_count] = row.tokens[static_cast<size_t>(i)];
      const bool last = i + 1 == count;
      if (last || row.sample_every_token) {
        record.samples[header.sample_count++] = {header.token_count, last ? row.slot : kNullSlot};
      }
      ++header.token_count;
    }
  }

  Device& device_;
  Transformer& model_;
  StepLimits limits_;
  std::unique_ptr<Buffer> record_, outcome_, slots_, block_tables_, kv_;
  std::unique_ptr<Stream> stream_;
  StepTensors tensors_;
  uint64_t step_ = 0;
};

}  // namespace rally

#endif  // RALLY_TESTS_ENGINE_MODEL_STEP_DRIVER_H_
