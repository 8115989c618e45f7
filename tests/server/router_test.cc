#include "server/router.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_engine.h"

namespace rally {
namespace {

class NullSink final : public TokenSink {
 public:
  void OnDelta(std::span<const int32_t> ids, std::string_view text) override {}
  void OnFinish(const Finish& finish) override {}
};

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (FakeEngine* engine : {&a_, &b_}) engine->SetPaused(true);
  }

  FakeEngine* Place() {
    RequestSpec spec;
    spec.prompt_ids = {1, 2, 3};
    const auto placement = router_.Submit(spec, std::make_shared<NullSink>());
    last_error_ = placement.status();
    return placement.ok() ? static_cast<FakeEngine*>(placement->engine) : nullptr;
  }

  FakeEngine a_{{.name = "a", .max_live = 2}};
  FakeEngine b_{{.name = "b", .max_live = 2}};
  Router router_{{&a_, &b_}};
  absl::Status last_error_;
};

TEST_F(RouterTest, TakesTheRankWithTheFewestOutstandingTokens) {
  a_.SetOutstandingTokens(10);
  b_.SetOutstandingTokens(9);
  EXPECT_EQ(Place(), &b_);
  b_.SetOutstandingTokens(11);
  EXPECT_EQ(Place(), &a_);
}

TEST_F(RouterTest, SkipsALostRank) {
  a_.Lose();
  a_.SetOutstandingTokens(0);
  EXPECT_EQ(Place(), &b_);
  EXPECT_TRUE(router_.AnyUp());
}

TEST_F(RouterTest, AFullRankIsNoReasonToRefuseWhileAnotherHasRoom) {
  a_.SetOutstandingTokens(0);
  b_.SetOutstandingTokens(100);
  EXPECT_EQ(Place(), &a_);
  EXPECT_EQ(Place(), &a_);
  EXPECT_EQ(Place(), &b_);
  EXPECT_EQ(Place(), &b_);
  EXPECT_EQ(Place(), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(last_error_));
  EXPECT_EQ(b_.accepted().back().prompt_ids, (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(RouterTest, AllDownIsUnavailable) {
  a_.Lose();
  b_.Lose();
  EXPECT_EQ(Place(), nullptr);
  EXPECT_TRUE(absl::IsUnavailable(last_error_));
  EXPECT_FALSE(router_.AnyUp());
}

}  // namespace
}  // namespace rally
