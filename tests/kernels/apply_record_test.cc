// The first op of a step: resets, block updates, token expansion, and what padding may not do.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/host/host_ops.h"

namespace rally {
namespace {

class ApplyRecordTest : public testing::Test {
 protected:
  void Run() {
    RunApplyRecord({.record = record_,
                    .outcome = outcome_,
                    .tables = {slots_, blocks_, kMaxBlocks},
                    .tokens = tokens_});
  }

  static constexpr int32_t kMaxBlocks = 3;
  const StepLimits limits_{4, 8, 4, 12, 4, kMaxBlocks};
  std::vector<std::byte> record_bytes_ = std::vector<std::byte>(StepRecordView::Bytes(limits_));
  std::vector<std::byte> outcome_bytes_ = std::vector<std::byte>(StepOutcomeView::Bytes(limits_));
  StepRecordView record_{record_bytes_.data(), limits_};
  StepOutcomeView outcome_{outcome_bytes_.data(), limits_};
  SlotState slots_[4];
  int32_t blocks_[4 * kMaxBlocks] = {};
  TokenMeta tokens_[8];
};

TEST_F(ApplyRecordTest, ResetsComeBeforeTokensAndReplaceTheWholeSlot) {
  slots_[2] = {.last_token = 50,
               .output_count = 3,
               .done = 1,
               .generation = 1,
               .seed = 9,
               .temperature = 2,
               .min_tokens = 4,
               .stop_id_count = 2,
               .stop_ids = {1, 2}};
  slots_[3].last_token = 33;
  record_.resets[0] = {2, SlotState{.last_token = 77, .generation = 2}};
  record_.rows[0] = {3, 0, 1, 10};
  record_.rows[1] = {2, 1, 3, 5};
  record_.tokens[0] = kTokenFromSlot;
  record_.tokens[1] = 4;
  record_.tokens[2] = 5;
  record_.tokens[3] = kTokenFromSlot;
  *record_.header = {
      .step = 12, .row_count = 2, .token_count = 4, .sample_count = 2, .reset_count = 1};
  Run();
  EXPECT_EQ(slots_[2].done, 0);
  EXPECT_EQ(slots_[2].seed, 0u);
  EXPECT_EQ(slots_[2].stop_id_count, 0);
  EXPECT_EQ(slots_[2].stop_ids[1], 0);
  EXPECT_EQ(slots_[2].generation, 2u);
  const TokenMeta expected[] = {{33, 10, 3}, {4, 5, 2}, {5, 6, 2}, {77, 7, 2}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(tokens_[i].id, expected[i].id) << i;
    EXPECT_EQ(tokens_[i].position, expected[i].position) << i;
    EXPECT_EQ(tokens_[i].slot, expected[i].slot) << i;
  }
  EXPECT_EQ(outcome_.header->step, 12u);
  EXPECT_EQ(outcome_.header->row_count, 2);
  EXPECT_GT(outcome_.header->start_ns, 0);
}

TEST_F(ApplyRecordTest, BlockUpdatesGoToTheirEntryOnly) {
  record_.block_updates[0] = {1, 2, 40};
  record_.block_updates[1] = {3, 0, 41};
  *record_.header = {.block_update_count = 2};
  Run();
  for (int i = 0; i < 4 * kMaxBlocks; ++i) {
    EXPECT_EQ(blocks_[i], i == 1 * kMaxBlocks + 2 ? 40 : i == 3 * kMaxBlocks ? 41 : 0) << i;
  }
}

TEST_F(ApplyRecordTest, TheNullSlotNeverReachesALivingBlock) {
  record_.block_updates[0] = {kNullSlot, 0, 5};
  record_.resets[0] = {kNullSlot, SlotState{.last_token = 9, .done = 1}};
  *record_.header = {.block_update_count = 1, .reset_count = 1};
  Run();
  EXPECT_EQ(blocks_[0], kNullBlock);
  EXPECT_EQ(slots_[0].last_token, 0);
  EXPECT_EQ(slots_[0].done, 0);
}

}  // namespace
}  // namespace rally
