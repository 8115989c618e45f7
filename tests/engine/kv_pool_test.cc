// The KV pool on the host device: what each kind takes, moves and frees.
#include "engine/kv_pool.h"

#include <gtest/gtest.h>

#include <memory>

#include "kernels/device/host_device.h"

namespace rally {
namespace {

constexpr int64_t kBlockBytes = 4096;
constexpr int32_t kMaxBlocks = 100;

class KvPoolTest : public testing::Test {
 protected:
  std::unique_ptr<KvPool> NewPool(KvPoolKind kind) {
    auto pool = KvPool::Create(
        device_.get(), {.kind = kind, .block_bytes = kBlockBytes, .max_blocks = kMaxBlocks});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }
  absl::Status Grow(KvPool* pool, int32_t blocks, uint64_t next_step = 1) {
    return pool->Grow(blocks,
                      {.stream = stream_.get(), .after = event_.get(), .next_step = next_step});
  }
  int64_t& FirstWord(KvPool* pool, int32_t block) {
    return *reinterpret_cast<int64_t*>(pool->base() + block * kBlockBytes);
  }
  void Sync() { ASSERT_TRUE(device_->Sync(*stream_).ok()); }

  std::unique_ptr<Device> device_ = *NewHostDevice({.threads = 1});
  std::unique_ptr<Stream> stream_ = *device_->NewStream();
  std::unique_ptr<Event> event_ = *device_->NewEvent();
};

TEST_F(KvPoolTest, AFixedPoolHasAllAtStart) {
  auto pool = NewPool(KvPoolKind::kFixed);
  EXPECT_EQ(pool->blocks(), kMaxBlocks);
  EXPECT_EQ(pool->size_bytes(), kBlockBytes * kMaxBlocks);
}

TEST_F(KvPoolTest, AMappedPoolGrowsWhereItIs) {
  auto pool = NewPool(KvPoolKind::kMapped);
  EXPECT_EQ(pool->blocks(), 2) << "the null block and one more";
  const std::byte* base = pool->base();
  FirstWord(pool.get(), 1) = 7;
  ASSERT_TRUE(Grow(pool.get(), 50).ok());
  EXPECT_EQ(pool->blocks(), 50);
  EXPECT_EQ(pool->size_bytes(), kBlockBytes * 50);
  EXPECT_EQ(pool->base(), base);
  EXPECT_EQ(FirstWord(pool.get(), 1), 7);
  FirstWord(pool.get(), 49) = 8;  // usable
  ASSERT_TRUE(Grow(pool.get(), 30).ok());
  EXPECT_EQ(pool->blocks(), 50) << "it never shrinks";
  ASSERT_TRUE(Grow(pool.get(), kMaxBlocks).ok());
  EXPECT_EQ(pool->base(), base);
}

TEST_F(KvPoolTest, AReallocatedPoolTakesItsBlocksAlong) {
  auto pool = NewPool(KvPoolKind::kReallocated);
  FirstWord(pool.get(), 1) = 7;
  const std::byte* base = pool->base();
  ASSERT_TRUE(Grow(pool.get(), 40, 1).ok());
  Sync();
  EXPECT_NE(pool->base(), base) << "the old buffer is still there, so it is another place";
  EXPECT_EQ(FirstWord(pool.get(), 1), 7);
  FirstWord(pool.get(), 39) = 8;
  pool->Complete(1);
  ASSERT_TRUE(Grow(pool.get(), 41, 2).ok());
  EXPECT_EQ(pool->blocks(), 60) << "half again at least";
  Sync();
  EXPECT_EQ(FirstWord(pool.get(), 1), 7);
  EXPECT_EQ(FirstWord(pool.get(), 39), 8);
  ASSERT_TRUE(Grow(pool.get(), 95, 3).ok());
  EXPECT_EQ(pool->blocks(), 95);
  ASSERT_TRUE(Grow(pool.get(), 96, 3).ok());
  EXPECT_EQ(pool->blocks(), kMaxBlocks) << "and the limit at most";
  Sync();
}

TEST_F(KvPoolTest, WhatTheDeviceCannotGiveLeavesThePoolAsItWas) {
  constexpr int64_t kHuge = int64_t{1} << 44;
  for (KvPoolKind kind : {KvPoolKind::kMapped, KvPoolKind::kReallocated}) {
    auto pool = KvPool::Create(
        device_.get(),
        {.kind = kind, .block_bytes = kBlockBytes, .max_blocks = kHuge / kBlockBytes / 4});
    ASSERT_TRUE(pool.ok()) << pool.status();
    const std::byte* base = (*pool)->base();
    const absl::Status status = Grow(pool->get(), kHuge / kBlockBytes / 4);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ((*pool)->blocks(), 2);
    EXPECT_EQ((*pool)->base(), base);
  }
}

}  // namespace
}  // namespace rally
