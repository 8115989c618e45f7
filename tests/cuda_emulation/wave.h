// The blocks of a grid that run at the same time: one, those of a cluster, or all of the grid.
//
// Every thread of a kernel is a fiber. One host thread runs them in a random but repeatable order:
// it picks a warp that has something to do, lets each of its lanes run to where it must wait for
// others, and goes on to another warp now and then. So values are exchanged only where the kernel
// synchronises, and code that relies on more gives wrong results under some seed. There are no
// data races on the host; memory is sequentially consistent, so a missing fence goes unseen.
#ifndef RALLY_TESTS_CUDA_EMULATION_WAVE_H_
#define RALLY_TESTS_CUDA_EMULATION_WAVE_H_

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "tests/cuda_emulation/async_copy.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/kernel_launch.h"
#include "tests/cuda_emulation/random.h"
#include "tests/cuda_emulation/shared_memory.h"

namespace rally::emulation {

constexpr int kWarpLanes = 32;

// What a thread waits for, for messages.
struct Wait {
  const char* op = "";
  std::source_location where;
};

struct Warp;
struct Block;

struct Thread {
  enum class State { kReady, kWaiting, kEnded };

  Fiber fiber;
  uint3 index = {};  // threadIdx
  Warp* warp = nullptr;
  int lane = 0;
  State state = State::kEnded;
  Wait wait;
  bool at_barrier = false;  // of the block or the cluster
  int barrier_result = 0;
  AsyncCopies copies;
};

// Operands of a warp-wide operation, one a lane; null where the lane takes no part.
using WarpOperands = void* const (&)[kWarpLanes];

// A lane's part in a warp-wide operation; `operand` lies on its stack.
struct WarpArrival {
  uint32_t mask = 0;
  void* operand = nullptr;
  void (*exchange)(WarpOperands) = nullptr;
};

struct Warp {
  Block* block = nullptr;
  Thread* threads = nullptr;
  uint32_t living = 0;  // a bit a lane
  uint32_t ready = 0;
  uint32_t arrived = 0;
  WarpArrival arrivals[kWarpLanes];
  bool listed = false;  // among the wave's runnable warps, or running
};

enum class Combine { kNone, kAny, kAll, kCount };

// One of the 16 barriers of a block, or the barrier of a cluster.
struct ThreadBarrier {
  std::vector<Thread*> arrived;
  unsigned threads = 0;  // that take part; 0: all that live
  Combine combine = Combine::kNone;
  int true_count = 0;  // of the threads' predicates
};

// A thread that waits for a barrier in shared memory.
struct BarrierSleeper {
  const uint64_t* barrier = nullptr;
  Thread* thread = nullptr;
};

struct Cluster {
  unsigned living = 0;  // threads
  ThreadBarrier barrier;
};

struct Block {
  uint3 index = {};
  unsigned living = 0;  // threads
  SharedRegion shared;
  bool waited_for_inputs = false;
  ThreadBarrier barriers[16];
  Cluster* cluster = nullptr;
  Block* first_of_cluster = nullptr;  // the others follow
};

class Wave {
 public:
  // The wave that runs. There is one at a time in a process.
  static Wave& Current() { return current_; }

  // Runs these blocks to their ends; clusters are `launch.cluster_z` neighbours among them.
  void Run(const KernelLaunch& launch, const std::vector<uint3>& blocks, Random* random);

  const KernelLaunch& launch() const { return *launch_; }
  Random& random() { return *random_; }
  bool concurrent() const { return blocks_.size() > 1; }
  BulkCopies& bulk_copies() { return bulk_copies_; }
  std::vector<BarrierSleeper>& barrier_sleepers() { return barrier_sleepers_; }
  // Null outside of kernels.
  Thread* thread() const { return thread_; }

  // For the running thread. Lets others run; a loop that polls calls it each time.
  void Pass();
  // The same now and then, at what may be a race.
  void PassSometimes();
  // Waits until Wake.
  void Sleep(const Wait& wait);
  void Wake(Thread& thread);
  // Something has changed that a polling thread may wait for.
  void NoteProgress() { idle_passes_ = 0; }

  // All threads that wait, and for what.
  std::string DescribeWaits() const;

 private:
  static Wave current_;

  static void ThreadBody();
  void Prepare(const std::vector<uint3>& blocks);
  void PrepareBlock(size_t b, const uint3& index);
  void RunWarp(Warp& warp);
  void Resume(Thread& thread);
  void EndThread(Thread& thread);
  void EndBlock(Block& block);
  void Unstick();

  const KernelLaunch* launch_ = nullptr;
  Random* random_ = nullptr;
  Thread* thread_ = nullptr;
  StackPool stacks_;
  SharedMemory shared_;
  BulkCopies bulk_copies_;
  std::vector<BarrierSleeper> barrier_sleepers_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Block> blocks_;
  std::vector<Cluster> clusters_;
  std::vector<Warp*> runnable_;
  size_t warps_per_block_ = 0;
  size_t living_ = 0;
  uint64_t idle_passes_ = 0;
};

// The running thread of a kernel; a failure where there is none.
Thread& CurrentThread();
inline Block& CurrentBlock() { return *CurrentThread().warp->block; }

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_WAVE_H_
