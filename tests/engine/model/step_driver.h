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
    record_bytes_.resize(record_->size_bytes());
    outcome_bytes_.resize(outcome_->size_bytes());
    host_record_ = StepRecordView(record_bytes_.data(), limits_);
    host_outcome_ = StepOutcomeView(outcome_bytes_.data(), limits_);
    logits_.resize(static_cast<size_t>(model.vocab_size()));
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
    const StepHeader& header = *host_record_.header;
    *host_record_.header = {.step = ++step_, .row_count = static_cast<int32_t>(rows.size())};
    for (size_t r = 0; r < rows.size(); ++r) AddRow(rows[r], host_record_, static_cast<int32_t>(r));
    stream_->Copy(record_->data(), record_bytes_.data(), host_record_.UsedBytes());
    const bool decode_only =
        header.token_count == header.row_count && header.sample_count == header.row_count;
    model_.Forward(
        *stream_, tensors_,
        {limits_.max_rows, limits_.max_tokens, limits_.max_samples, decode_only ? 1 : 0});
    stream_->Copy(outcome_bytes_.data(), outcome_->data(), outcome_bytes_.size());
    ASSERT_TRUE(device_.Sync(*stream_).ok()) << device_.status();
    ASSERT_EQ(host_outcome_.header->step, step_);
    ASSERT_EQ(host_outcome_.header->row_count, header.sample_count);
    ASSERT_GE(host_outcome_.header->end_ns, host_outcome_.header->start_ns);
  }

  const OutcomeRow& outcome(int32_t sample) const { return host_outcome_.rows[sample]; }
  // Valid until the next call.
  std::span<const float> logits(int32_t sample) {
    stream_->Copy(logits_.data(), model_.logits().row<float>(sample),
                  logits_.size() * sizeof(float));
    EXPECT_TRUE(device_.Sync(*stream_).ok()) << device_.status();
    return logits_;
  }

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
  // What the host writes into and reads out of the device's memory.
  std::vector<std::byte> record_bytes_, outcome_bytes_;
  StepRecordView host_record_;
  StepOutcomeView host_outcome_;
  std::vector<float> logits_;  // of one sample
  uint64_t step_ = 0;
};

}  // namespace rally

#endif  // RALLY_TESTS_ENGINE_MODEL_STEP_DRIVER_H_
