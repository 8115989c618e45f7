#include "engine/admission.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/testing/collecting_sink.h"
#include "tests/testing/hash_chain_model.h"

namespace rally {
namespace {

struct Door {
  Vocabulary vocabulary = HashChainVocabulary();
  Admission admission{{.context_tokens = 100,
                       .pool_tokens = 80,
                       .max_queued_requests = 2,
                       .max_queued_tokens = 50,
                       .eos_ids = {0}},
                      &vocabulary,
                      &MonotonicClock::Get()};

  absl::StatusOr<uint64_t> Submit(int32_t prompt, int32_t max_tokens = 10) {
    RequestSpec spec;
    spec.prompt_ids.assign(prompt, 1);
    spec.stop.max_tokens = max_tokens;
    return admission.Submit(spec, std::make_shared<CollectingSink>());
  }
};

// The engine thread looks at its stop flag, takes, and only then waits: a Wake that came between
// the look and the Take has to end that wait. Lost, the last join of the engine never returns.
TEST(AdmissionTest, ATakeDoesNotEatAWake) {
  Door door;
  InboxBatch batch;
  door.admission.Wake();
  door.admission.Take(&batch);
  EXPECT_TRUE(batch.empty());
  door.admission.Wait();
}

TEST(AdmissionTest, MessagesComeOnceAndInOrder) {
  Door door;
  const auto first = door.Submit(5);
  const auto second = door.Submit(6);
  ASSERT_TRUE(first.ok() && second.ok());
  door.admission.Cancel(*first, FinishReason::kDeadline);
  door.admission.Wait();
  InboxBatch batch;
  door.admission.Take(&batch);
  ASSERT_EQ(batch.submitted.size(), 2u);
  EXPECT_EQ(batch.submitted[0]->key, *first);
  EXPECT_EQ(batch.submitted[1]->key, *second);
  ASSERT_EQ(batch.cancelled.size(), 1u);
  EXPECT_EQ(batch.cancelled[0].reason, FinishReason::kDeadline);
  door.admission.Take(&batch);
  EXPECT_TRUE(batch.empty());
}

TEST(AdmissionTest, AFullQueueSaysWhichLimitAndOpensAgain) {
  Door door;
  ASSERT_TRUE(door.Submit(30).ok());
  const absl::Status tokens = door.Submit(21).status();
  EXPECT_EQ(tokens.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(tokens.message().find("the limit is 50"), std::string::npos) << tokens;
  ASSERT_TRUE(door.Submit(20).ok());
  EXPECT_EQ(door.Submit(1).status().code(), absl::StatusCode::kResourceExhausted);
  door.admission.LeftQueue(30);
  EXPECT_TRUE(door.Submit(1).ok());
}

TEST(AdmissionTest, OutputIsBoundedByTheContextAndByThePool) {
  Door door;
  ASSERT_TRUE(door.Submit(40, 1000).ok());
  InboxBatch batch;
  door.admission.Take(&batch);
  EXPECT_EQ(batch.submitted[0]->output_limit, 41) << "the last token needs no place in the pool";
  EXPECT_EQ(door.admission.outstanding_tokens(), 81);
}

TEST(AdmissionTest, AClosedDoorSaysWhy) {
  Door door;
  door.admission.Close("the server is draining");
  door.admission.Close("something later");
  const absl::Status status = door.Submit(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the server is draining");
  EXPECT_TRUE(door.admission.WaitUntilEmpty(absl::InfiniteFuture()));
}

}  // namespace
}  // namespace rally
