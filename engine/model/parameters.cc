#include "engine/model/parameters.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

// A vector that the host already holds.
class HeldVector final : public RowSource {
 public:
  explicit HeldVector(std::vector<float> values) : values_(std::move(values)) {}
  int64_t rows() const override { return 1; }
  int64_t cols() const override { return static_cast<int64_t>(values_.size()); }
  absl::Status Read(int64_t, int64_t, float* out) const override {
    std::copy(values_.begin(), values_.end(), out);
    return absl::OkStatus();
  }

 private:
  const std::vector<float> values_;
};

// All vectors of a model in one buffer: first they are listed, then they are uploaded.
class VectorArena {
 public:
  // `*place` is set by Upload; it stays null where there is no source.
  void Add(std::unique_ptr<RowSource> source, const float** place) {
    if (source == nullptr) return;
    bytes_ += Aligned(source->cols());
    pending_.push_back({std::move(source), place});
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Upload(Device& device) {
    RALLY_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, device.Allocate(Space::kDevice, bytes_));
    std::byte* next = buffer->data();
    for (const auto& [source, place] : pending_) {
      RALLY_RETURN_IF_ERROR(device.ops().upload(device, DType::kF32, *source, next));
      *place = reinterpret_cast<const float*>(next);
      next += Aligned(source->cols());
    }
    return buffer;
  }

 private:
  static size_t Aligned(int64_t count) {
    return (static_cast<size_t>(count) * sizeof(float) + 255) / 256 * 256;
  }
  struct Pending {
    std::unique_ptr<RowSource> source;
    const float** place;
  };
  std::vector<Pending> pending_;
  size_t bytes_ = 0;
};

class Loader {
 public:
  Loader(Device& device, DType dtype, const LoadProgress& progress, int32_t total)
      : device_(device), dtype_(dtype), progress_(progress), total_(total) {}

  // Sources are taken by value: each is freed when its parameter is on the device.
  absl::Status LoadWeight(std::unique_ptr<RowSource> source, const char* name,
                          std::unique_ptr<Weight>* weight) {
    if (source == nullptr) return Missing(name);
    RALLY_ASSIGN_OR_RETURN(*weight, device_.ops().make_weight(device_, dtype_, *source));
    Step();
    return absl::OkStatus();
  }

  absl::Status LoadTable(std::unique_ptr<RowSource> source, const char* name, Matrix* table,
                         std::vector<std::unique_ptr<Buffer>>* buffers) {
    if (source == nullptr) return Missing(name);
    const size_t bytes = static_cast<size_t>(source->rows() * source->cols()) * DTypeBytes(dtype_);
    RALLY_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, device_.Allocate(Space::kDevice, bytes));
    RALLY_RETURN_IF_ERROR(device_.ops().upload(device_, dtype_, *source, buffer->data()));
    const auto cols = static_cast<int32_t>(source->cols());
    *table = {.data = buffer->data(), .dtype = dtype_, .cols = cols, .stride = cols};
    buffers->push_back(std::move(buffer));
    Step();
    return absl::OkStatus();
  }

 private:
  static absl::Status Missing(const char* name) {
    return absl::InvalidArgumentError(absl::StrCat("the model has no ", name));
  }
  void Step() {
    ++done_;
    if (progress_) progress_(done_, total_);
  }

  Device& device_;
  const DType dtype_;
  const LoadProgress& progress_;
  const int32_t total_;
  int32_t done_ = 0;
};

absl::Status LoadLayer(Loader& loader, LayerSource source, VectorArena& arena,
                       LayerParameters* layer) {
  arena.Add(std::move(source.attention_norm_weight), &layer->attention_norm_weight);
  arena.Add(std::move(source.attention_norm_bias), &layer->attention_norm_bias);
  arena.Add(std::move(source.qkv_bias), &layer->qkv_bias);
  arena.Add(std::move(source.q_norm_weight), &layer->q_norm_weight);
  arena.Add(std::move(source.k_norm_weight), &layer->k_norm_weight);
  arena.Add(std::move(source.attention_output_bias), &layer->attention_output_bias);
  arena.Add(std::move(source.ffn_norm_weight), &layer->ffn_norm_weight);
  arena.Add(std::move(source.ffn_norm_bias), &layer->ffn_norm_bias);
  arena.Add(std::move(source.ffn_up_bias), &layer->ffn_up_bias);
  arena.Add(std::move(source.ffn_down_bias), &layer->ffn_down_bias);
  RALLY_RETURN_IF_ERROR(loader.LoadWeight(std::move(source.qkv_weight), "qkv weight", &layer->qkv));
  RALLY_RETURN_IF_ERROR(loader.LoadWeight(std::move(source.attention_output_weight),
                                          "attention output weight", &layer->attention_output));
  RALLY_RETURN_IF_ERROR(
      loader.LoadWeight(std::move(source.ffn_up_weight), "ffn up weight", &layer->ffn_up));
  return loader.LoadWeight(std::move(source.ffn_down_weight), "ffn down weight", &layer->ffn_down);
}

}  // namespace

absl::StatusOr<Parameters> Parameters::Load(Device& device, ModelSource source, DType dtype,
                                            const LoadProgress& progress) {
  const ModelConfig& config = source.config;
  constexpr int32_t kWeightsOfLayer = 4;
  const int32_t total = 2 + (config.learned_positions ? 1 : 0) + kWeightsOfLayer * config.layers;
  Loader loader(device, dtype, progress, total);
  VectorArena arena;
  Parameters p;
  RALLY_RETURN_IF_ERROR(loader.LoadTable(std::move(source.token_embedding), "token embedding",
                                         &p.token_embedding, &p.tables));
  if (config.learned_positions) {
    RALLY_RETURN_IF_ERROR(loader.LoadTable(std::move(source.position_embedding),
                                           "position embedding", &p.position_embedding, &p.tables));
  } else {
    arena.Add(std::make_unique<HeldVector>(config.inv_freq), &p.inv_freq);
  }
  p.layers.resize(source.layers.size());
  for (size_t i = 0; i < p.layers.size(); ++i) {
    RALLY_RETURN_IF_ERROR(LoadLayer(loader, std::move(source.layers[i]), arena, &p.layers[i]));
  }
  arena.Add(std::move(source.final_norm_weight), &p.final_norm_weight);
  arena.Add(std::move(source.final_norm_bias), &p.final_norm_bias);
  RALLY_RETURN_IF_ERROR(loader.LoadWeight(std::move(source.head_weight), "head weight", &p.head));
  RALLY_ASSIGN_OR_RETURN(p.vectors, arena.Upload(device));
  return p;
}

size_t Parameters::size_bytes() const {
  size_t bytes = vectors->size_bytes() + head->size_bytes();
  for (const auto& table : tables) bytes += table->size_bytes();
  for (const LayerParameters& layer : layers) {
    bytes += layer.qkv->size_bytes() + layer.attention_output->size_bytes() +
             layer.ffn_up->size_bytes() + layer.ffn_down->size_bytes();
  }
  return bytes;
}

}  // namespace rally
