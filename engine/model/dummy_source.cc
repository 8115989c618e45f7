#include "engine/model/dummy_source.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "engine/model/hf_source.h"
#include "engine/model/model_assembly.h"

namespace rally {
namespace {

constexpr float kStd = 0.02f;

// SplitMix64 (Steele, Lea, Flood 2014): the finaliser.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// FNV-1a: the same on every platform, unlike std::hash.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

class RandomRows : public RowSource {
 public:
  RandomRows(uint64_t key, int64_t rows, int64_t cols) : key_(key), rows_(rows), cols_(cols) {}
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    const auto begin = static_cast<uint64_t>(first * cols_);
    for (uint64_t i = 0; i < static_cast<uint64_t>(count * cols_); ++i) {
      const uint64_t bits = Mix(key_ ^ Mix(begin + i));
      const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                          (bits >> 32 & 0xffff) + (bits >> 48));
      // Four uniform values in [0, 1) have mean 2 and variance 1/3.
      out[i] = (sum / 65536.0f - 2.0f) * std::sqrt(3.0f) * kStd;
    }
    return absl::OkStatus();
  }

 private:
  const uint64_t key_;
  const int64_t rows_, cols_;
};

class ConstantRow : public RowSource {
 public:
  ConstantRow(int64_t cols, float value) : cols_(cols), value_(value) {}
  int64_t rows() const override { return 1; }
  int64_t cols() const override { return cols_; }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    std::fill_n(out, count * cols_, value_);
    return absl::OkStatus();
  }

 private:
  const int64_t cols_;
  const float value_;
};

class DummyTensors : public TensorProvider {
 public:
  explicit DummyTensors(uint64_t seed) : seed_(seed) {}
  std::unique_ptr<RowSource> Matrix(const std::string& name, int64_t rows, int64_t cols) override {
    return std::make_unique<RandomRows>(Mix(seed_ ^ HashName(name)), rows, cols);
  }
  std::unique_ptr<RowSource> Vector(const std::string& name, int64_t n) override {
    // Vectors are biases and the weights of norms.
    if (absl::EndsWith(name, ".weight")) return std::make_unique<ConstantRow>(n, 1.0f);
    return Matrix(name, 1, n);
  }
  bool Has(const std::string& name) const override { return false; }
  void Ignore(const std::string& name) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const uint64_t seed_;
};

}  // namespace

absl::StatusOr<ModelSource> MakeDummyModel(const ModelConfig& config, uint64_t seed) {
  DummyTensors tensors(seed);
  TensorNames names = HuggingFaceNames(config.architecture, "");
  names.transposed = false;
  return AssembleModel(config, names, tensors);
}

}  // namespace rally
