// Speed of the host ops in SmolLM2-135M's shapes, beside what the memory can do in the same run.
//
//   ops_bench [threads]
//
// Prints the read bandwidth (1 GiB), then for each matrix product GB/s of weight and GFLOP/s with
// the weights of all layers in turn (they do not fit the cache), then whole steps of a model with
// random weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "engine/model/dummy_source.h"
#include "engine/model/transformer.h"
#include "kernels/device/host_device.h"
#include "kernels/host/cpu_features.h"
#include "kernels/host/matmul.h"
#include "kernels/host/parallel.h"
#include "tests/engine/model/step_driver.h"

namespace rally {
namespace {

double Seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Best of `repeats`.
double Best(int repeats, const std::function<void()>& run) {
  double best = Seconds(run);
  for (int i = 1; i < repeats; ++i) best = std::min(best, Seconds(run));
  return best;
}

// Each core sums a share of the buffer.
double ReadBandwidth(Device& device, int threads) {
  constexpr size_t kBytes = size_t{1} << 30;
  const auto buffer = *device.Allocate(Space::kDevice, kBytes);
  std::fill_n(buffer->data(), kBytes, std::byte{1});
  const auto* words = reinterpret_cast<const uint64_t*>(buffer->data());
  const size_t share = kBytes / sizeof(uint64_t) / static_cast<size_t>(threads);
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  SetParallelThreads(threads);
  const double s = Best(5, [&] {
    ParallelFor(threads, kBytes, [&](int64_t t) {
      uint64_t lanes[16] = {};
      const uint64_t* p = words + static_cast<size_t>(t) * share;
      for (size_t i = 0; i + 16 <= share; i += 16) {
        for (size_t j = 0; j < 16; ++j) lanes[j] += p[i + j];
      }
      for (const uint64_t lane : lanes) sums[static_cast<size_t>(t)] += lane;
    });
  });
  if (std::all_of(sums.begin(), sums.end(), [](uint64_t sum) { return sum == 0; })) std::abort();
  return static_cast<double>(kBytes) / s;
}

ModelConfig SmolLm2() {
  ModelConfig c;
  c.architecture = "llama";
  c.layers = 30;
  c.width = 576;
  c.ffn_width = 1536;
  c.q_heads = 9;
  c.kv_heads = 3;
  c.head_dim = 64;
  c.vocab_size = 49152;
  c.context_length = 2048;
  c.rotary_dim = 64;
  for (int i = 0; i < 32; ++i) c.inv_freq.push_back(std::pow(1e5f, -static_cast<float>(i) / 32));
  c.tied_head = true;
  c.window.assign(30, 0);
  c.attention_scale.assign(30, 0.125f);
  return c;
}

class Rows final : public RowSource {
 public:
  Rows(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {}
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    for (int64_t i = 0; i < count * cols_; ++i) {
      out[i] = static_cast<float>((first * cols_ + i) % 17 - 8) * 0.01f;
    }
    return absl::OkStatus();
  }

 private:
  const int64_t rows_, cols_;
};

void BenchMatmul(Device& device, DType dtype, int32_t n, int32_t k, int32_t copies) {
  constexpr int32_t kMaxRows = 512;
  const size_t element = DTypeBytes(dtype);
  std::vector<std::unique_ptr<Weight>> weights;
  for (int32_t i = 0; i < copies; ++i) {
    weights.push_back(*device.ops().make_weight(device, dtype, Rows(n, k)));
  }
  const auto x =
      *device.Allocate(Space::kDevice, size_t{kMaxRows} * static_cast<size_t>(k) * element);
  const auto out = *device.Allocate(Space::kDevice, size_t{kMaxRows} * static_cast<size_t>(n) * 4);
  const auto stream = *device.NewStream();
  int32_t rows = 0;
  const auto pass = [&] {
    for (const auto& w : weights) {
      device.ops().matmul(*stream, {.rows = &rows,
                                    .max_rows = kMaxRows,
                                    .x = {x->data(), dtype, k, k},
                                    .w = w.get(),
                                    .out = {out->data(), DType::kF32, n, n}});
    }
    if (!device.Sync(*stream).ok()) std::abort();
  };
  for (const int32_t m : {1, 2, 4, 8, 16, 64, 128, 512}) {
    rows = m;
    pass();
    const double s = Best(5, pass) / copies;
    const double products = double(m) * n * k;
    std::printf("matmul %s %5d x %5d  rows %3d  %8.1f us  %5.1f GB/s  %6.1f GFLOP/s\n",
                DTypeName(dtype).data(), k, n, m, s * 1e6,
                double(n) * k * double(element) / s * 1e-9, 2 * products / s * 1e-9);
  }
}

void BenchSteps(Device& device, DType dtype, double bandwidth) {
  auto model = *Transformer::Create(device, *MakeDummyModel(SmolLm2(), 1), dtype);
  StepDriver driver(device, *model, 32, 512, 32, 16);
  const double weight_bytes =
      (30.0 * (576 * 960 + 576 * 576 + 576 * 3072 + 1536 * 576) + 576.0 * 49152) *
      double(DTypeBytes(dtype));
  std::printf("step: weights %.0f MB, read once in %.2f ms; resident %.0f MB\n",
              weight_bytes * 1e-6, weight_bytes / bandwidth * 1e3,
              double(model->resident_bytes()) * 1e-6);
  for (const int32_t batch : {1, 2, 4, 8, 16, 32}) {
    for (const int32_t context : {32, 512, 1536}) {
      std::vector<DriverRow> rows;
      for (int32_t r = 0; r < batch; ++r) {
        DriverRow row{.slot = r + 1, .first_position = 0, .tokens = {1, 2, 3}};
        driver.Run({&row, 1});
        row.first_position = context;
        row.tokens = {kTokenFromSlot};
        rows.push_back(row);
      }
      const double s = Best(10, [&] { driver.Run(rows); });
      std::printf("decode batch %2d context %4d  %7.2f ms  %5.1f %% of the bandwidth\n", batch,
                  context, s * 1e3, weight_bytes / bandwidth / s * 100);
    }
  }
  for (const int32_t tokens : {64, 128, 256, 512}) {
    const DriverRow row{.slot = 1,
                        .first_position = 0,
                        .tokens = std::vector<int32_t>(static_cast<size_t>(tokens), 5)};
    driver.Run({&row, 1});
    const double s = Best(3, [&] { driver.Run({&row, 1}); });
    const double flop = 2.0 * tokens * 30 * (576 * 960 + 576 * 576 + 576 * 3072 + 1536 * 576);
    std::printf("prefill %3d tokens  %7.1f ms  %6.0f tokens/s  %5.1f GFLOP/s of matrix products\n",
                tokens, s * 1e3, tokens / s, flop / s * 1e-9);
  }
}

}  // namespace
}  // namespace rally

int main(int argc, char** argv) {
  using namespace rally;
  const int threads =
      argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  const auto device = *NewHostDevice({.threads = std::max(1, threads)});
  const DType dtype = HostHasBf16() ? DType::kBF16 : DType::kF32;
  const double bandwidth = ReadBandwidth(*device, std::max(1, threads));
  std::printf("read bandwidth %.1f GB/s, %d threads\n", bandwidth * 1e-9, threads);
  BenchMatmul(*device, dtype, 960, 576, 30);
  BenchMatmul(*device, dtype, 576, 576, 30);
  BenchMatmul(*device, dtype, 3072, 576, 30);
  BenchMatmul(*device, dtype, 576, 1536, 30);
  BenchMatmul(*device, dtype, 49152, 576, 2);
  BenchSteps(*device, dtype, bandwidth);
  return 0;
}
