// The ops of a decoder step: one args struct an op, with its shapes, and a table of functions that
// is chosen once, with the device.
//
// Every op is enqueued on a stream and returns at once. Ops are captured into graphs, so their
// arguments are fixed: what changes from step to step is read on the device from the step record.
// `rows` points to the number of rows that count in this step (a field of the StepHeader on the
// device) and bounds it; what an op leaves in rows beyond *rows is never read. Kernels accumulate
// in fp32 whatever the element types are.
//
// Symbols in shapes: T flat tokens of the step, S sampled tokens, D model width, V vocabulary,
// Hq/Hkv query and KV heads, dh head size, F feed-forward width.
#ifndef RALLY_KERNELS_OPS_H_
#define RALLY_KERNELS_OPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/step_record.h"
#include "kernels/tensor.h"

namespace rally {

// A flat token once the record has been applied.
struct TokenMeta {
  int32_t id = 0;
  int32_t position = 0;
  int32_t slot = kNullSlot;
};

// The paged KV cache. One block holds `block_tokens` positions of every layer:
//   block = [layer][K, V][kv_head][block_tokens][head_dim]
// so that a pool grows at its end.
struct KvCacheView {
  std::byte* base = nullptr;
  DType dtype = DType::kF32;
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t block_tokens = 0;
  int32_t head_dim = 0;

  int64_t head_elements() const { return int64_t{block_tokens} * head_dim; }
  int64_t side_elements() const { return head_elements() * kv_heads; }  // K or V of one layer
  int64_t block_elements() const { return 2 * side_elements() * layers; }
  int64_t block_bytes() const { return block_elements() * static_cast<int64_t>(DTypeBytes(dtype)); }
};

// How many rows count in this step, where the device finds that, and at most.
struct RowCount {
  RowCount() = default;
  RowCount(const int32_t* device_count, int32_t upper_bound = 0)  // NOLINT: a count is a count
      : count(device_count), max(upper_bound) {}
  int32_t operator*() const { return *count; }

  const int32_t* count = nullptr;
  int32_t max = 0;
};

// Rows of a parameter matrix in fp32, from a file (dequantised) or a generator. Thread-compatible.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  // Writes rows [first, first + count) to out (count, cols), row-major.
  virtual absl::Status Read(int64_t first, int64_t count, float* out) const = 0;
};

// A parameter matrix W (n, k) in the layout that the device's matmul likes best.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual size_t size_bytes() const = 0;
  int32_t n = 0;
  int32_t k = 0;
  DType dtype = DType::kF32;
};

// First op of a step. Stamps outcome.start_ns, applies slot resets and block updates in that
// order, and expands the rows into token metadata; a kTokenFromSlot token takes slot.last_token.
struct ApplyRecordArgs {
  StepRecordView record;
  StepOutcomeView outcome;
  SlotTables tables;
  TokenMeta* tokens = nullptr;  // (T)
  StepShape shape = {};
};

// out[t] = table[id[t]] (+ positions[position[t]] where there are learned positions)
struct EmbedArgs {
  RowCount rows;
  const TokenMeta* tokens = nullptr;  // (T)
  Matrix table;                       // (V, D)
  Matrix positions;                   // (context, D), or data == nullptr
  Matrix out;                         // (T, D) fp32
};

// out = x / rms(x) * weight, or with a bias LayerNorm: (x - mean) / std * weight + bias.
struct NormArgs {
  RowCount rows;
  Matrix x;                       // (rows, D) fp32
  const float* weight = nullptr;  // (D)
  const float* bias = nullptr;    // (D): LayerNorm; nullptr: RMSNorm
  float epsilon = 0;
  Matrix out;  // (rows, D)
};

// RMSNorm over each head's dh values, in place: the q and k norms of Qwen3.
struct HeadNormArgs {
  RowCount rows;
  Matrix x;  // (T, ...): heads lie next to each other from column first_col on
  int32_t first_col = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  const float* weight = nullptr;  // (dh)
  float epsilon = 0;
};

enum class Epilogue { kStore, kAccumulate };

// out = x W^T + bias, or out += x W^T + bias (the residual).
struct MatmulArgs {
  const int32_t* rows = nullptr;
  int32_t max_rows = 0;
  Matrix x;                     // (max_rows, k), the weight's dtype
  const Weight* w = nullptr;    // (n, k)
  const float* bias = nullptr;  // (n) or nullptr
  Epilogue epilogue = Epilogue::kStore;
  Matrix out;  // (max_rows, n); fp32 or the weight's dtype; fp32 to accumulate
};

// Rotates each head's first rotary_dim values in place: pairs (i, i + rotary_dim / 2), angle
// position * inv_freq[i], result times `scale` (the attention factor of YaRN and LongRoPE, else 1).
struct RopeArgs {
  RowCount rows;
  const TokenMeta* tokens = nullptr;  // (T)
  Matrix x;                           // (T, ...)
  int32_t first_col = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  const float* inv_freq = nullptr;  // (rotary_dim / 2)
  float scale = 1;
};

// Writes each token's K and V to its sequence's block at position / block_tokens.
struct KvAppendArgs {
  RowCount rows;
  const TokenMeta* tokens = nullptr;  // (T)
  Matrix qkv;                         // (T, (Hq + 2 Hkv) dh): q heads, k heads, v heads
  int32_t q_heads = 0;
  int32_t layer = 0;
  KvCacheView kv;
  SlotTables tables;
};

// Causal attention of every token over its sequence's KV up to and including itself, softmax in
// fp32. A token at position p sees positions [max(0, p - window + 1), p]; window 0: all.
struct AttentionArgs {
  StepRecordView record;  // rows
  Matrix qkv;             // (T, (Hq + 2 Hkv) dh)
  int32_t q_heads = 0;
  int32_t layer = 0;
  int32_t window = 0;
  float scale = 1;
  KvCacheView kv;
  SlotTables tables;
  Matrix out;  // (T, Hq dh)
  StepShape shape = {};
};

enum class ActivationKind { kGeluTanh, kGeluErf, kRelu, kSilu };

// gated: x (T, 2F) = [gate | up], out = act(gate) * up. Else x (T, F), out = act(x).
struct ActivationArgs {
  RowCount rows;
  ActivationKind kind = ActivationKind::kSilu;
  int32_t gated = 0;
  Matrix x;
  Matrix out;  // (T, F)
};

// out[s] = x[samples[s].token_index]
struct GatherArgs {
  RowCount rows;                        // &header.sample_count
  const StepSample* samples = nullptr;  // (S)
  Matrix x;                             // (T, D) fp32
  Matrix out;                           // (S, D) fp32
};

// Last op of a step. Samples one token a row, advances the slots, fills the outcome and stamps
// outcome.end_ns. Equal logits go to the smallest id. A slot that was done stays as it is.
// Noise: token = argmax(z_i - log(E_i)) over the kept ids, z the logits over temperature, E_i
// exponential noise from a hash of (seed, output_count, i): Gumbel-max sampling.
struct SampleArgs {
  StepRecordView record;
  StepOutcomeView outcome;
  SlotTables tables;
  Matrix logits;  // (S, V) fp32; overwritten
  StepShape shape = {};
};

// --- Ops that do the work of several, for steps in which every row has one token (decode_only).
// A device offers those that it has: a null entry, or `false` as the answer, means that it enqueued
// nothing and that the ops above do the work. The answer depends on the arguments' types and shapes
// alone.

// Head norms, rotary positions, KV append and attention of one layer. qkv is left as it was.
struct DecodeAttentionArgs {
  AttentionArgs attention;
  const TokenMeta* tokens = nullptr;     // (T)
  const float* q_norm_weight = nullptr;  // (dh): RMSNorm over each query head; nullptr: none
  const float* k_norm_weight = nullptr;  // (dh)
  float norm_epsilon = 0;
  int32_t rotary_dim = 0;           // 0: no rotary positions
  const float* inv_freq = nullptr;  // (rotary_dim / 2)
  float rope_scale = 1;
};

// out = act(norm(x) W^T + bias), or out += x W^T + bias.
struct FusedLinearArgs {
  RowCount rows;
  const StepSample* samples = nullptr;  // row r is row samples[r].token_index of x; nullptr: row r
  Matrix x;                             // (T, k): fp32 where it is normed, else the weight's dtype
  const float* norm_weight = nullptr;   // (k); nullptr: x is taken as it is
  const float* norm_bias = nullptr;     // (k): LayerNorm; nullptr: RMSNorm
  float norm_epsilon = 0;
  const Weight* w = nullptr;    // (n, k), or where gated (2n, k): gate rows, then up rows
  const float* bias = nullptr;  // (n) or (2n)
  int32_t activated = 0;        // 1: `activation` is applied, to the gate where there is one
  ActivationKind activation = ActivationKind::kSilu;
  int32_t gated = 0;  // 1: out = act(gate) * up
  Epilogue epilogue = Epilogue::kStore;
  Matrix out;  // (rows.max, n)
};

// A whole decoder for few rows as one op, between apply_record and sample: embedding, all layers,
// final norm and head. What it needs of the model is prepared once, at start-up.
struct DecodeStackLayer {
  const float* attention_norm_weight = nullptr;
  const float* attention_norm_bias = nullptr;
  const Weight* qkv = nullptr;
  const float* qkv_bias = nullptr;
  const float* q_norm_weight = nullptr;
  const float* k_norm_weight = nullptr;
  const Weight* attention_output = nullptr;
  const float* attention_output_bias = nullptr;
  const float* ffn_norm_weight = nullptr;
  const float* ffn_norm_bias = nullptr;
  const Weight* ffn_up = nullptr;  // (F, D), or where gated (2F, D): gate rows, then up rows
  const float* ffn_up_bias = nullptr;
  const Weight* ffn_down = nullptr;
  const float* ffn_down_bias = nullptr;
  float attention_scale = 1;
  int32_t window = 0;
};

struct DecodeStackModel {
  std::vector<DecodeStackLayer> layers;
  Matrix token_embedding;     // (V, D)
  Matrix position_embedding;  // (context, D), or data == nullptr
  const float* final_norm_weight = nullptr;
  const float* final_norm_bias = nullptr;
  const Weight* head = nullptr;  // (V, D)
  float norm_epsilon = 0;
  int32_t q_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;           // 0: no rotary positions
  const float* inv_freq = nullptr;  // (rotary_dim / 2)
  float rope_scale = 1;
  ActivationKind activation = ActivationKind::kSilu;
  bool gated = false;
  // Activations that the ops above use too: rows of this many at least as max_rows says.
  const TokenMeta* tokens = nullptr;  // (T)
  Matrix residual;                    // (T, D) fp32
  Matrix qkv;                         // (T, (Hq + 2 Hkv) dh)
  Matrix attended;                    // (T, Hq dh)
  Matrix activated;                   // (T, F)
  Matrix logits;                      // (S, V) fp32
};

// What a device keeps for it.
class DecodeStack {
 public:
  virtual ~DecodeStack() = default;
  virtual int32_t max_rows() const = 0;  // steps of more rows take the ops above
};

struct DecodeStackArgs {
  const DecodeStack* stack = nullptr;
  StepRecordView record;
  SlotTables tables;
  KvCacheView kv;
  StepShape shape = {};
};

struct OpTable {
  void (*apply_record)(Stream&, const ApplyRecordArgs&) = nullptr;
  void (*embed)(Stream&, const EmbedArgs&) = nullptr;
  void (*norm)(Stream&, const NormArgs&) = nullptr;
  void (*head_norm)(Stream&, const HeadNormArgs&) = nullptr;
  void (*matmul)(Stream&, const MatmulArgs&) = nullptr;
  void (*rope)(Stream&, const RopeArgs&) = nullptr;
  void (*kv_append)(Stream&, const KvAppendArgs&) = nullptr;
  void (*attention)(Stream&, const AttentionArgs&) = nullptr;
  void (*activation)(Stream&, const ActivationArgs&) = nullptr;
  void (*gather)(Stream&, const GatherArgs&) = nullptr;
  void (*sample)(Stream&, const SampleArgs&) = nullptr;
  bool (*decode_attention)(Stream&, const DecodeAttentionArgs&) = nullptr;
  bool (*fused_linear)(Stream&, const FusedLinearArgs&) = nullptr;
  void (*decode_stack)(Stream&, const DecodeStackArgs&) = nullptr;
  // Start-up only; null: the device has no such op for this model.
  absl::StatusOr<std::unique_ptr<DecodeStack>> (*make_decode_stack)(
      Device&, const DecodeStackModel&) = nullptr;
  // Start-up only.
  absl::StatusOr<std::unique_ptr<Weight>> (*make_weight)(Device&, DType dtype,
                                                         const RowSource&) = nullptr;
  // Start-up only: fills a device buffer with rows in `dtype`, row-major.
  absl::Status (*upload)(Device&, DType dtype, const RowSource&, void* dst) = nullptr;
};

}  // namespace rally

#endif  // RALLY_KERNELS_OPS_H_
