#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <memory>

#include "kernels/device/host_stream.h"

namespace rally {
namespace {

struct MeasureArgs {
  const std::function<double()>* measure;
  double* result;
};

void RunMeasure(const MeasureArgs& a) { *a.result = (*a.measure)(); }

struct Product {
  int32_t n;
  int32_t k;
};

std::vector<Product> LayerProducts(const ModelConfig& c) {
  return {{c.qkv_width(), c.width},
          {c.width, c.q_width()},
          {c.gated ? 2 * c.ffn_width : c.ffn_width, c.width},
          {c.width, c.ffn_width}};
}

// One product with a weight of its own for each layer.
class OneDnnProduct {
 public:
  OneDnnProduct(const Product& p, DType dtype, int tokens, int layers)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    using Type = dnnl::memory::data_type;
    const Type type = dtype == DType::kBF16 ? Type::bf16 : Type::f32;
    const dnnl::memory::desc x({tokens, p.k}, type, Tag::ab);
    const dnnl::memory::desc w({p.k, p.n}, type, Tag::any);
    const dnnl::memory::desc y({tokens, p.n}, Type::f32, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc desc(engine_, x, w, y);
#else
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(x, w, y), engine_);
#endif
    matmul_ = dnnl::matmul(desc);
    x_ = Filled(desc.src_desc());
    y_ = Filled(desc.dst_desc());
    for (int i = 0; i < layers; ++i) weights_.push_back(Filled(desc.weights_desc()));
  }

  void Run(int layer) {
    matmul_.execute(stream_,
                    {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[layer]}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

 private:
  // Small numbers, none of them zero or denormal in either type.
  dnnl::memory Filled(const dnnl::memory::desc& desc) {
    dnnl::memory memory(desc, engine_);
    auto* words = static_cast<uint16_t*>(memory.get_data_handle());
    for (size_t i = 0; i < desc.get_size() / 2; ++i) {
      words[i] = static_cast<uint16_t>(0x3c00 + i % 97);
    }
    return memory;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  dnnl::memory x_, y_;
  std::vector<dnnl::memory> weights_;
};

}  // namespace

double OnDeviceThread(Device& device, Stream& stream, const std::function<double()>& measure) {
  double result = 0;
  const MeasureArgs args{&measure, &result};
  EnqueueOnHost<&RunMeasure>(stream, args);
  if (!device.Sync(stream).ok()) std::abort();
  return result;
}

double SecondsOf(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double ReadBandwidth() {
  constexpr size_t kWords = (size_t{1} << 30) / sizeof(uint64_t);
  std::vector<uint64_t> words(kWords, 1);
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    uint64_t sum = 0;
    best = std::min(best, SecondsOf([&] {
#pragma omp parallel for reduction(+ : sum)
                      for (size_t i = 0; i < kWords; ++i) sum += words[i];
                    }));
    if (sum != kWords) std::abort();
  }
  return static_cast<double>(kWords * sizeof(uint64_t)) / best;
}

double StepParameters(const ModelConfig& c) {
  double layer = 0;
  for (const Product& p : LayerProducts(c)) layer += double{1} * p.n * p.k;
  return layer * c.layers + double{1} * c.vocab_size * c.width;
}

double OneDnnPrefillSeconds(const ModelConfig& config, DType dtype, int tokens) {
  std::vector<std::unique_ptr<OneDnnProduct>> products;
  for (const Product& p : LayerProducts(config)) {
    products.push_back(std::make_unique<OneDnnProduct>(p, dtype, tokens, config.layers));
  }
  double best = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    best = std::min(best, SecondsOf([&] {
                      for (int layer = 0; layer < config.layers; ++layer) {
                        for (auto& product : products) product->Run(layer);
                      }
                    }));
  }
  return best;
}

}  // namespace rally
