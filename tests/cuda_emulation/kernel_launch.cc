#include "tests/cuda_emulation/kernel_launch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cuda_emulation/cuda_language.h"
#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/wave.h"

namespace rally::emulation {
namespace {

constexpr size_t kSharedBytesOfAll = size_t{48} << 10;
constexpr size_t kMultiprocessorSharedBytes = size_t{228} << 10;
constexpr size_t kReservedSharedBytes = 1024;  // a block
constexpr unsigned kMultiprocessorThreads = 2048;
constexpr unsigned kMaxClusterBlocks = 8;

std::mutex& LaunchMutex() {
  static std::mutex mutex;
  return mutex;
}

std::map<const void*, size_t>& AllowedSharedBytes() {
  static std::map<const void*, size_t> allowed;
  return allowed;
}

size_t AllowedFor(const void* kernel) {
  const auto found = AllowedSharedBytes().find(kernel);
  return found == AllowedSharedBytes().end() ? kSharedBytesOfAll : found->second;
}

// Registers are not known here, so fewer may fit.
size_t ResidentBlocks(const KernelLaunch& launch) {
  const size_t by_memory =
      kMultiprocessorSharedBytes / (launch.shared_bytes + kReservedSharedBytes);
  const size_t by_threads = kMultiprocessorThreads / launch.block;
  return kMultiprocessors * std::min({by_memory, by_threads, size_t{32}});
}

void CheckLaunch(const KernelLaunch& launch) {
  const auto fail = [&](const std::string& why) { Fail(absl::StrCat(launch.op, ": ", why)); };
  const size_t blocks = size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (launch.block == 0 || launch.block > 1024) {
    fail(absl::StrCat("blocks of ", launch.block, " threads"));
  }
  if (launch.grid.x > 0x7fffffffu || launch.grid.y > 0xffff || launch.grid.z > 0xffff) {
    fail(absl::StrCat("a grid of ", launch.grid.x, " x ", launch.grid.y, " x ", launch.grid.z));
  }
  if (launch.shared_bytes > AllowedFor(launch.kernel)) {
    fail(absl::StrCat(launch.shared_bytes, " bytes of dynamic shared memory; allowed are ",
                      AllowedFor(launch.kernel)));
  }
  if (launch.cluster_z == 0 || launch.cluster_z > kMaxClusterBlocks ||
      launch.grid.z % launch.cluster_z != 0) {
    fail(absl::StrCat("clusters of ", launch.cluster_z, " blocks in a grid of ", launch.grid.z));
  }
  if (launch.all_resident && blocks > ResidentBlocks(launch)) {
    fail(absl::StrCat(blocks, " blocks cannot run at once; ", ResidentBlocks(launch), " can"));
  }
}

// The blocks of each wave; those of a cluster are neighbours.
std::vector<std::vector<uint3>> Waves(const KernelLaunch& launch, Random& random) {
  std::vector<std::vector<uint3>> waves;
  for (unsigned z = 0; z < launch.grid.z; z += launch.cluster_z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        if (waves.empty() || !launch.all_resident) waves.emplace_back();
        for (unsigned rank = 0; rank < launch.cluster_z; ++rank) {
          waves.back().push_back({x, y, z + rank});
        }
      }
    }
  }
  for (size_t i = waves.size(); i > 1; --i) {
    std::swap(waves[i - 1], waves[random.Below(static_cast<uint32_t>(i))]);
  }
  return waves;
}

uint64_t Seed() {
  const char* text = std::getenv("RALLY_EMULATION_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace

void RunKernel(const KernelLaunch& launch) {
  const std::lock_guard lock(LaunchMutex());
  static uint64_t launches = 0;
  static const uint64_t seed = Seed();
  CheckLaunch(launch);
  ReportInvalidAccesses();
  Random random(seed * 0x10001 + launches++);
  blockDim = dim3(launch.block, 1, 1);
  gridDim = launch.grid;
  for (const std::vector<uint3>& blocks : Waves(launch, random)) {
    Wave::Current().Run(launch, blocks, &random);
  }
}

void AllowKernelSharedBytes(const void* kernel, size_t bytes) {
  const std::lock_guard lock(LaunchMutex());
  if (bytes > kMaxSharedBytes) {
    Fail(absl::StrCat("a kernel asks for ", bytes, " bytes of dynamic shared memory; a block has ",
                      kMaxSharedBytes));
  }
  size_t& allowed = AllowedSharedBytes()[kernel];
  allowed = std::max(bytes, kSharedBytesOfAll);
}

}  // namespace rally::emulation
