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

// Binds what the ops of one step have in common, so that a layer says only what differs. Steps of
// decode rows alone take the device's fused ops where it has them.
struct Transformer::Pass {
  const Transformer& model;
  Stream& stream;
  const StepTensors& step;
  const StepShape& shape;
  const OpTable& ops = model.device_.ops();
  const Workspace& w = model.work_;
  const ModelConfig& c = model.config_;
  RowCount tokens{&step.record.header->token_count, shape.max_tokens};
  RowCount samples{&step.record.header->sample_count, shape.max_samples};

  KvCacheView Kv() const { return model.KvView(step.kv_base); }

  void Linear(const FusedLinearArgs& args) const {
    if (shape.decode_only != 0 && ops.fused_linear != nullptr && ops.fused_linear(stream, args)) {
      return;
    }
    Matrix x = args.x;
    if (args.norm_weight != nullptr) {
      ops.norm(stream,
               {args.rows, x, args.norm_weight, args.norm_bias, args.norm_epsilon, w.normed});
      x = w.normed;
    }
    ops.matmul(stream, {args.rows.count, args.rows.max, x, args.w, args.bias, args.epilogue,
                        args.activated != 0 ? w.up : args.out});
    if (args.activated == 0) return;
    ops.activation(stream, {args.rows, args.activation, args.gated, w.up, args.out});
  }

  void Attend(int32_t index, const LayerParameters& layer) const {
    const auto i = static_cast<size_t>(index);
    const int32_t rotary_dim = c.learned_positions ? 0 : c.rotary_dim;
    const AttentionArgs attention = {
        step.record,          w.qkv, c.q_heads,   index,      c.window[i],
        c.attention_scale[i], Kv(),  step.tables, w.attended, shape};
    if (shape.decode_only != 0 && ops.decode_attention != nullptr &&
        ops.decode_attention(
            stream, {attention, w.tokens, layer.q_norm_weight, layer.k_norm_weight, c.norm_epsilon,
                     rotary_dim, model.parameters_.inv_freq, c.rope_scale})) {
      return;
    }
    HeadNorm(0, c.q_heads, layer.q_norm_weight);
    HeadNorm(c.q_width(), c.kv_heads, layer.k_norm_weight);
    if (rotary_dim > 0) {
      // Query and key heads lie next to each other, so they turn in one op.
      ops.rope(stream, {tokens, w.tokens, w.qkv, 0, c.q_heads + c.kv_heads, c.head_dim, rotary_dim,
                        model.parameters_.inv_freq, c.rope_scale});
    }
    ops.kv_append(stream, {tokens, w.tokens, w.qkv, c.q_heads, index, attention.kv, step.tables});
    ops.attention(stream, attention);
  }

  void HeadNorm(int32_t first_col, int32_t heads, const float* weight) const {
    if (weight == nullptr) return;
    ops.head_norm(stream, {tokens, w.qkv, first_col, heads, c.head_dim, weight, c.norm_epsilon});
  }

  void Layer(int32_t index, const LayerParameters& layer) const {
    Linear({.rows = tokens,
            .x = w.residual,
            .norm_weight = layer.attention_norm_weight,
            .norm_bias = layer.attention_norm_bias,
            .norm_epsilon = c.norm_epsilon,
            .w = layer.qkv.get(),
            .bias = layer.qkv_bias,
            .out = w.qkv});
    Attend(index, layer);
    Linear({.rows = tokens,
            .x = w.attended,
            .w = layer.attention_output.get(),
            .bias = layer.attention_output_bias,
            .epilogue = Epilogue::kAccumulate,
            .out = w.residual});
    Linear({.rows = tokens,
            .x = w.residual,
            .norm_weight = layer.ffn_norm_weight,
            .norm_bias = layer.ffn_norm_bias,
            .norm_epsilon = c.norm_epsilon,
            .w = layer.ffn_up.get(),
            .bias = layer.ffn_up_bias,
            .activated = 1,
            .activation = c.activation,
            .gated = c.gated ? 1 : 0,
            .out = w.activated});
    Linear({.rows = tokens,
            .x = w.activated,
            .w = layer.ffn_down.get(),
            .bias = layer.ffn_down_bias,
            .epilogue = Epilogue::kAccumulate,
            .out = w.residual});
  }

  void Head(const Parameters& p) const {
    if (shape.decode_only != 0 && ops.fused_linear != nullptr &&
        ops.fused_linear(stream, {.rows = samples,
                                  .samples = step.record.samples,
                                  .x = w.residual,
                                  .norm_weight = p.final_norm_weight,
                                  .norm_bias = p.final_norm_bias,
                                  .norm_epsilon = c.norm_epsilon,
                                  .w = p.head.get(),
                                  .out = w.logits})) {
      return;
    }
    ops.gather(stream, {samples, step.record.samples, w.residual, w.last});
    ops.norm(stream, {samples, w.last, p.final_norm_weight, p.final_norm_bias, c.norm_epsilon,
                      w.last_normed});
    ops.matmul(stream, {samples.count, samples.max, w.last_normed, p.head.get(), nullptr,
                        Epilogue::kStore, w.logits});
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

KvCacheView Transformer::KvView(std::byte* base) const {
  return {.base = base,
          .dtype = dtype_,
          .layers = config_.layers,
          .kv_heads = config_.kv_heads,
          .block_tokens = block_tokens_,
          .head_dim = config_.head_dim};
}

int64_t Transformer::KvBlockBytes(int32_t block_tokens) const {
  KvCacheView view = KvView(nullptr);
  view.block_tokens = block_tokens;
  return view.block_bytes();
}

absl::Status Transformer::Prepare(const StepLimits& limits, int32_t block_tokens) {
  RALLY_ASSIGN_OR_RETURN(work_, Workspace::Create(device_, config_, dtype_, limits));
  limits_ = limits;
  block_tokens_ = block_tokens;
  const auto make_stack = device_.ops().make_decode_stack;
  if (make_stack == nullptr) return absl::OkStatus();
  RALLY_ASSIGN_OR_RETURN(stack_, make_stack(device_, StackModel()));
  return absl::OkStatus();
}

DecodeStackModel Transformer::StackModel() const {
  const ModelConfig& c = config_;
  DecodeStackModel m = {.layers = {},
                        .token_embedding = parameters_.token_embedding,
                        .position_embedding = parameters_.position_embedding,
                        .final_norm_weight = parameters_.final_norm_weight,
                        .final_norm_bias = parameters_.final_norm_bias,
                        .head = parameters_.head.get(),
                        .norm_epsilon = c.norm_epsilon,
                        .q_heads = c.q_heads,
                        .kv_heads = c.kv_heads,
                        .head_dim = c.head_dim,
                        .rotary_dim = c.learned_positions ? 0 : c.rotary_dim,
                        .inv_freq = parameters_.inv_freq,
                        .rope_scale = c.rope_scale,
                        .activation = c.activation,
                        .gated = c.gated,
                        .tokens = work_.tokens,
                        .residual = work_.residual,
                        .qkv = work_.qkv,
                        .attended = work_.attended,
                        .activated = work_.activated,
                        .logits = work_.logits};
  for (size_t i = 0; i < parameters_.layers.size(); ++i) {
    const LayerParameters& layer = parameters_.layers[i];
    m.layers.push_back({layer.attention_norm_weight, layer.attention_norm_bias, layer.qkv.get(),
                        layer.qkv_bias, layer.q_norm_weight, layer.k_norm_weight,
                        layer.attention_output.get(), layer.attention_output_bias,
                        layer.ffn_norm_weight, layer.ffn_norm_bias, layer.ffn_up.get(),
                        layer.ffn_up_bias, layer.ffn_down.get(), layer.ffn_down_bias,
                        c.attention_scale[i], c.window[i]});
  }
  return m;
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

  ops.apply_record(stream, {step.record, step.outcome, step.tables, w.tokens, shape});
  if (stack_ != nullptr && shape.decode_only != 0 && shape.max_rows <= stack_->max_rows()) {
    ops.decode_stack(stream, {stack_.get(), step.record, step.tables, pass.Kv(), shape});
  } else {
    ops.embed(stream, {pass.tokens, w.tokens, p.token_embedding, p.position_embedding, w.residual});
    for (int32_t i = 0; i < config_.layers; ++i) {
      pass.Layer(i, p.layers[static_cast<size_t>(i)]);
    }
    pass.Head(p);
  }
  ops.sample(stream, {step.record, step.outcome, step.tables, w.logits, shape});
}

}  // namespace rally
