#include "engine/model/transformer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

absl::Status CheckConfig(const ModelSource& source) {
  const ModelConfig& c = source.config;
  const auto require = [](bool ok, const char* field) {
    return ok ? absl::OkStatus()
              : absl::InvalidArgumentError(absl::StrCat("model configuration: bad ", field));
  };
  const auto layers = static_cast<size_t>(c.layers);
  RALLY_RETURN_IF_ERROR(require(c.layers > 0 && source.layers.size() == layers, "layers"));
  RALLY_RETURN_IF_ERROR(require(c.width > 0, "width"));
  RALLY_RETURN_IF_ERROR(require(c.ffn_width > 0, "ffn_width"));
  RALLY_RETURN_IF_ERROR(require(c.vocab_size > 0, "vocab_size"));
  RALLY_RETURN_IF_ERROR(require(c.context_length > 0, "context_length"));
  RALLY_RETURN_IF_ERROR(
      require(c.head_dim > 0 && c.head_dim % 8 == 0 && c.head_dim <= 256, "head_dim"));
  RALLY_RETURN_IF_ERROR(require(c.kv_heads > 0 && c.q_heads % c.kv_heads == 0, "kv_heads"));
  RALLY_RETURN_IF_ERROR(require(c.window.size() == layers, "window"));
  RALLY_RETURN_IF_ERROR(require(c.attention_scale.size() == layers, "attention_scale"));
  if (c.learned_positions) return absl::OkStatus();
  RALLY_RETURN_IF_ERROR(require(
      c.rotary_dim > 0 && c.rotary_dim % 2 == 0 && c.rotary_dim <= c.head_dim, "rotary_dim"));
  return require(c.inv_freq.size() == static_cast<size_t>(c.rotary_dim / 2), "inv_freq");
}

}  // namespace

// Binds what the ops of one step have in common, so that Forward says only what differs.
struct Transformer::Pass {
  const Transformer& model;
  Stream& stream;
  const StepTensors& step;
  const StepShape& shape;
  const OpTable& ops = model.device_.ops();
  RowCount tokens{&step.record.header->token_count, shape.max_tokens};
  RowCount samples{&step.record.header->sample_count, shape.max_samples};
  KvCacheView kv = {.base = step.kv_base,
                    .dtype = model.dtype_,
                    .layers = model.config_.layers,
                    .kv_heads = model.config_.kv_heads,
                    .block_tokens = model.block_tokens_,
                    .head_dim = model.config_.head_dim};

  void Norm(const RowCount& rows, const Matrix& x, const float* weight, const float* bias,
            const Matrix& out) const {
    ops.norm(stream, {rows, x, weight, bias, model.config_.norm_epsilon, out});
  }
  void HeadNorm(int32_t first_col, int32_t heads, const float* weight) const {
    if (weight == nullptr) return;
    ops.head_norm(stream, {tokens, model.work_.qkv, first_col, heads, kv.head_dim, weight,
                           model.config_.norm_epsilon});
  }
  void Linear(const Matrix& x, const Weight& w, const float* bias, Epilogue epilogue,
              const Matrix& out) const {
    ops.matmul(stream, {tokens.count, tokens.max, x, &w, bias, epilogue, out});
  }
  // Query and key heads lie next to each other, so they turn in one op.
  void Rope() const {
    const ModelConfig& c = model.config_;
    if (c.learned_positions) return;
    ops.rope(stream, {tokens, model.work_.tokens, model.work_.qkv, 0, c.q_heads + c.kv_heads,
                      c.head_dim, c.rotary_dim, model.parameters_.inv_freq, c.rope_scale});
  }
};

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(Device& device, ModelSource source,
                                                                 DType dtype,
                                                                 const LoadProgress& progress) {
  RALLY_RETURN_IF_ERROR(CheckConfig(source));
  ModelConfig config = source.config;
  RALLY_ASSIGN_OR_RETURN(Parameters parameters,
                         Parameters::Load(device, std::move(source), dtype, progress));
  return std::unique_ptr<Transformer>(
      new Transformer(device, std::move(config), dtype, std::move(parameters)));
}

int64_t Transformer::KvBlockBytes(int32_t block_tokens) const {
  return KvCacheView{.dtype = dtype_,
                     .layers = config_.layers,
                     .kv_heads = config_.kv_heads,
                     .block_tokens = block_tokens,
                     .head_dim = config_.head_dim}
      .block_bytes();
}

absl::Status Transformer::Prepare(const StepLimits& limits, int32_t block_tokens) {
  RALLY_ASSIGN_OR_RETURN(work_, Workspace::Create(device_, config_, dtype_, limits));
  limits_ = limits;
  block_tokens_ = block_tokens;
  return absl::OkStatus();
}

int64_t Transformer::resident_bytes() const {
  const size_t activations = work_.buffer == nullptr ? 0 : work_.buffer->size_bytes();
  return static_cast<int64_t>(parameters_.size_bytes() + activations);
}

void Transformer::Forward(Stream& stream, const StepTensors& step, const StepShape& shape) {
  const Pass pass{.model = *this, .stream = stream, .step = step, .shape = shape};
  const OpTable& ops = pass.ops;
  const Parameters& p = parameters_;
  const Workspace& w = work_;
  const ModelConfig& c = config_;

  ops.apply_record(stream, {step.record, step.outcome, step.tables, w.tokens, shape});
  ops.embed(stream, {pass.tokens, w.tokens, p.token_embedding, p.position_embedding, w.residual});

  for (int32_t i = 0; i < c.layers; ++i) {
    const LayerParameters& layer = p.layers[static_cast<size_t>(i)];
    const auto index = static_cast<size_t>(i);
    pass.Norm(pass.tokens, w.residual, layer.attention_norm_weight, layer.attention_norm_bias,
              w.normed);
    pass.Linear(w.normed, *layer.qkv, layer.qkv_bias, Epilogue::kStore, w.qkv);
    pass.HeadNorm(0, c.q_heads, layer.q_norm_weight);
    pass.HeadNorm(c.q_width(), c.kv_heads, layer.k_norm_weight);
    pass.Rope();
    ops.kv_append(stream, {pass.tokens, w.tokens, w.qkv, c.q_heads, i, pass.kv, step.tables});
    ops.attention(stream, {step.record, w.qkv, c.q_heads, i, c.window[index],
                           c.attention_scale[index], pass.kv, step.tables, w.attended, shape});
    pass.Linear(w.attended, *layer.attention_output, layer.attention_output_bias,
                Epilogue::kAccumulate, w.residual);

    pass.Norm(pass.tokens, w.residual, layer.ffn_norm_weight, layer.ffn_norm_bias, w.normed);
    pass.Linear(w.normed, *layer.ffn_up, layer.ffn_up_bias, Epilogue::kStore, w.up);
    ops.activation(stream, {pass.tokens, c.activation, c.gated ? 1 : 0, w.up, w.activated});
    pass.Linear(w.activated, *layer.ffn_down, layer.ffn_down_bias, Epilogue::kAccumulate,
                w.residual);
  }

  ops.gather(stream, {pass.samples, step.record.samples, w.residual, w.last});
  pass.Norm(pass.samples, w.last, p.final_norm_weight, p.final_norm_bias, w.last_normed);
  ops.matmul(stream, {pass.samples.count, pass.samples.max, w.last_normed, p.head.get(), nullptr,
                      Epilogue::kStore, w.logits});
  ops.sample(stream, {step.record, step.outcome, step.tables, w.logits, shape});
}

}  // namespace rally
