#include "engine/model/model_assembly.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/row_sources.h"

namespace rally {
namespace {

using Rows = std::unique_ptr<RowSource>;

template <typename... Parts>
std::vector<Rows> List(Parts... parts) {
  std::vector<Rows> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

class LayerAssembler {
 public:
  LayerAssembler(const ModelConfig& config, const TensorNames& names, TensorProvider& tensors,
                 int32_t layer)
      : config_(config),
        names_(names),
        tensors_(tensors),
        prefix_(absl::StrCat(names.layers, layer, ".")) {}

  LayerSource Assemble() {
    const int64_t d = config_.width, f = config_.ffn_width;
    LayerSource layer;
    layer.attention_norm_weight = Weights(names_.attention_norm, d);
    layer.ffn_norm_weight = Weights(names_.ffn_norm, d);
    if (config_.norm == NormKind::kLayerNorm) {
      layer.attention_norm_bias = Bias(names_.attention_norm, d);
      layer.ffn_norm_bias = Bias(names_.ffn_norm, d);
    }
    AssembleQkv(layer);
    layer.attention_output_weight = Matrix(names_.attention_output, d, config_.q_width());
    if (config_.attention_output_bias) {
      layer.attention_output_bias = Bias(names_.attention_output, d);
    }
    layer.ffn_up_weight = Matrix(names_.ffn_up, f, d);
    if (config_.ffn_bias) layer.ffn_up_bias = Bias(names_.ffn_up, f);
    if (config_.gated) AddGate(layer);
    layer.ffn_down_weight = Matrix(names_.ffn_down, d, f);
    if (config_.ffn_bias) layer.ffn_down_bias = Bias(names_.ffn_down, d);
    return layer;
  }

 private:
  void AssembleQkv(LayerSource& layer) {
    const int64_t d = config_.width, q = config_.q_width(), kv = config_.kv_width();
    if (!names_.qkv.empty()) {
      layer.qkv_weight = Matrix(names_.qkv, config_.qkv_width(), d);
      if (config_.qkv_bias) layer.qkv_bias = Bias(names_.qkv, config_.qkv_width());
    } else {
      layer.qkv_weight =
          StackRows(List(Unpermute(Matrix(names_.q, q, d)), Unpermute(Matrix(names_.k, kv, d)),
                         Matrix(names_.v, kv, d)));
      if (config_.qkv_bias) {
        layer.qkv_bias = JoinVectors(
            List(Unpermute(Bias(names_.q, q)), Unpermute(Bias(names_.k, kv)), Bias(names_.v, kv)));
      }
    }
    if (config_.qk_norm) {
      layer.q_norm_weight = Weights(names_.q_norm, config_.head_dim);
      layer.k_norm_weight = Weights(names_.k_norm, config_.head_dim);
    }
  }

  void AddGate(LayerSource& layer) {
    layer.ffn_up_weight = StackRows(List(Matrix(names_.ffn_gate, config_.ffn_width, config_.width),
                                         std::move(layer.ffn_up_weight)));
    if (config_.ffn_bias) {
      layer.ffn_up_bias =
          JoinVectors(List(Bias(names_.ffn_gate, config_.ffn_width), std::move(layer.ffn_up_bias)));
    }
  }

  Rows Matrix(const std::string& name, int64_t rows, int64_t cols) {
    const std::string full = absl::StrCat(prefix_, name, ".weight");
    return names_.transposed ? TransposeRows(tensors_.Matrix(full, cols, rows))
                             : tensors_.Matrix(full, rows, cols);
  }
  Rows Weights(const std::string& name, int64_t n) {
    return tensors_.Vector(absl::StrCat(prefix_, name, ".weight"), n);
  }
  Rows Bias(const std::string& name, int64_t n) {
    return tensors_.Vector(absl::StrCat(prefix_, name, ".bias"), n);
  }
  Rows Unpermute(Rows rows) {
    return names_.permuted_qk ? UnpermuteHeads(std::move(rows), config_.head_dim) : std::move(rows);
  }

  const ModelConfig& config_;
  const TensorNames& names_;
  TensorProvider& tensors_;
  const std::string prefix_;
};

// The embedding, and the head that may be the same tensor.
absl::Status AssembleEnds(const TensorNames& names, TensorProvider& tensors, ModelSource& model) {
  ModelConfig& config = model.config;
  const int64_t v = config.vocab_size, d = config.width;
  const std::shared_ptr<const RowSource> embedding =
      tensors.Matrix(absl::StrCat(names.token_embedding, ".weight"), v, d);
  const std::string head_name = absl::StrCat(names.head, ".weight");
  if (!config.tied_head || tensors.Has(head_name)) {
    model.head_weight = tensors.Matrix(head_name, v, d);
  }
  RALLY_RETURN_IF_ERROR(tensors.status());
  if (config.tied_head && model.head_weight != nullptr) {
    RALLY_ASSIGN_OR_RETURN(config.tied_head, SameRows(*embedding, *model.head_weight));
  }
  model.token_embedding = ShareRows(embedding);
  if (config.tied_head) model.head_weight = ShareRows(embedding);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSource> AssembleModel(ModelConfig config, const TensorNames& names,
                                          TensorProvider& tensors) {
  ModelSource model;
  model.config = std::move(config);
  RALLY_RETURN_IF_ERROR(AssembleEnds(names, tensors, model));
  const int64_t d = model.config.width;
  if (model.config.learned_positions) {
    model.position_embedding = tensors.Matrix(absl::StrCat(names.position_embedding, ".weight"),
                                              model.config.context_length, d);
  }
  for (int32_t i = 0; i < model.config.layers; ++i) {
    model.layers.push_back(LayerAssembler(model.config, names, tensors, i).Assemble());
    RALLY_RETURN_IF_ERROR(tensors.status());
  }
  model.final_norm_weight = tensors.Vector(absl::StrCat(names.final_norm, ".weight"), d);
  if (model.config.norm == NormKind::kLayerNorm) {
    model.final_norm_bias = tensors.Vector(absl::StrCat(names.final_norm, ".bias"), d);
  }
  RALLY_RETURN_IF_ERROR(tensors.status());
  return model;
}

}  // namespace rally
