#include "engine/id_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace rally {
namespace {

TEST(IdPoolTest, HandsOutEachIdOnce) {
  IdPool pool(1, 3);
  std::vector<int32_t> ids = {pool.Take(), pool.Take(), pool.Take()};
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(pool.held(), 3);
}

TEST(IdPoolTest, ReleaseWaitsForTheLastStepThatNamesTheId) {
  IdPool pool(0, 1);
  const int32_t id = pool.Take();
  pool.Release(id, 7);
  EXPECT_EQ(pool.releasing(), 1);
  pool.Complete(6);
  EXPECT_FALSE(pool.IsFree(id));
  pool.Complete(7);
  EXPECT_TRUE(pool.IsFree(id));
}

TEST(IdPoolTest, ReleaseIsImmediateWhenTheStepHasCompleted) {
  IdPool pool(0, 1);
  pool.Complete(3);
  pool.Release(pool.Take(), 3);
  EXPECT_EQ(pool.free(), 1);
}

TEST(IdPoolTest, GrowsByTheNextIds) {
  IdPool pool(1, 1, 4);
  EXPECT_EQ(pool.Take(), 1);
  pool.GrowTo(3);
  EXPECT_EQ(pool.total(), 3);
  EXPECT_EQ(pool.Take(), 2);
  EXPECT_EQ(pool.Take(), 3);
  EXPECT_EQ(pool.free(), 0);
  pool.GrowTo(2);
  EXPECT_EQ(pool.total(), 3) << "it never shrinks";
  EXPECT_TRUE(pool.Consistent());
}

TEST(IdPoolTest, BooksBalanceUnderRandomUse) {
  std::mt19937 random(5);
  IdPool pool(1, 40);
  std::vector<int32_t> held;
  for (uint64_t step = 1; step < 2000; ++step) {
    if (pool.free() > 0 && random() % 2 == 0) held.push_back(pool.Take());
    if (!held.empty() && random() % 3 == 0) {
      pool.Release(held.back(), step + random() % 3);
      held.pop_back();
    }
    pool.Complete(step - 1);
    ASSERT_TRUE(pool.Consistent());
    ASSERT_EQ(pool.held(), static_cast<int32_t>(held.size()));
  }
}

}  // namespace
}  // namespace rally
