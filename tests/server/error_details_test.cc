#include "server/error_details.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace rally {
namespace {

google::rpc::Status Details(const WireStatus& wire) {
  google::rpc::Status status;
  EXPECT_TRUE(status.ParseFromString(wire.details));
  return status;
}

template <typename Message>
int Count(const google::rpc::Status& status, Message* found) {
  int n = 0;
  for (const auto& any : status.details()) n += any.UnpackTo(found);
  return n;
}

TEST(ErrorDetailsTest, InvalidFieldHasOneOfEachDetail) {
  const WireStatus wire = ToWireStatus(InvalidField("top_p", "2 is too much"));
  EXPECT_EQ(wire.code, 3);
  EXPECT_EQ(wire.message, "top_p: 2 is too much");
  EXPECT_FALSE(wire.retry_pushback_ms.has_value());
  const google::rpc::Status status = Details(wire);
  EXPECT_EQ(status.code(), 3);
  google::rpc::ErrorInfo info;
  ASSERT_EQ(Count(status, &info), 1);
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
  EXPECT_EQ(info.domain(), "rally");
  EXPECT_EQ(info.metadata().at("field"), "top_p");
  google::rpc::BadRequest bad;
  ASSERT_EQ(Count(status, &bad), 1);
  EXPECT_EQ(bad.field_violations(0).description(), "2 is too much");
}

TEST(ErrorDetailsTest, RetryableErrorsCarryTheSamePauseTwice) {
  const WireStatus wire = ToWireStatus(RetryableError(absl::StatusCode::kResourceExhausted, "FULL",
                                                      "full", absl::Milliseconds(1250)));
  google::rpc::RetryInfo retry;
  ASSERT_EQ(Count(Details(wire), &retry), 1);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 250'000'000);
  EXPECT_EQ(wire.retry_pushback_ms, 1250);
}

TEST(ErrorDetailsTest, EngineErrorsGetTheDetailsOfTheirCode) {
  google::rpc::ErrorInfo info;
  const WireStatus full = ToWireStatus(absl::ResourceExhaustedError("queue full"));
  EXPECT_EQ(Count(Details(full), &info), 1);
  EXPECT_EQ(info.reason(), "OVERLOADED");
  EXPECT_TRUE(full.retry_pushback_ms.has_value());
  EXPECT_TRUE(ToWireStatus(absl::UnavailableError("lost")).retry_pushback_ms.has_value());
  EXPECT_FALSE(ToWireStatus(absl::CancelledError("gone")).retry_pushback_ms.has_value());
}

TEST(ErrorDetailsTest, InternalTextsStayInside) {
  const WireStatus wire = ToWireStatus(absl::InternalError("secret at 0x7f00"));
  EXPECT_EQ(wire.code, 13);
  EXPECT_THAT(wire.message + wire.details, testing::Not(testing::HasSubstr("secret")));
}

TEST(ErrorDetailsTest, OkIsEmpty) {
  const WireStatus wire = ToWireStatus(absl::OkStatus());
  EXPECT_EQ(wire.code, 0);
  EXPECT_TRUE(wire.details.empty());
}

}  // namespace
}  // namespace rally
