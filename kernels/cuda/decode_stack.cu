#include "kernels/cuda/decode_stack.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/decode_stack_kernel.cuh"

namespace rally {
namespace {

// What is left holds a small block of another kernel, such as the one that answers for the device
// clock.
constexpr size_t kSharedLimit = kMaxSharedBytes - (size_t{3} << 10);
constexpr int32_t kLeastStages = 6;        // below, memory is not read ahead enough
constexpr int32_t kMostStageDepth = 1024;  // elements

bool IsOdd(int64_t value, int64_t multiple) { return value % multiple != 0; }

bool Takes(const DecodeStackModel& m) {
  const DType dtype = m.head->dtype;
  if (dtype == DType::kF32 || m.layers.empty()) return false;
  if (m.head_dim > 128 || m.head_dim % 8 != 0 || m.rotary_dim / 2 > kMaxRotaryPairs) return false;
  if (m.q_heads / m.kv_heads > 8) return false;
  for (const DecodeStackLayer& layer : m.layers) {
    for (const Weight* w : {layer.qkv, layer.attention_output, layer.ffn_up, layer.ffn_down}) {
      if (w->dtype != dtype || IsOdd(w->k, kDepthStep)) return false;
    }
    if (m.gated && IsOdd(layer.ffn_down->k, kTileRows / 2)) return false;
  }
  return m.head->k == m.layers[0].qkv->k;
}

// The depth that a stage holds: the width in equal parts, so that most stages are full.
int32_t StageDepth(int32_t width) {
  const int64_t parts = CeilDiv(width, kMostStageDepth);
  return static_cast<int32_t>(CeilDiv(CeilDiv(width, parts), kDepthStep) * kDepthStep);
}

// Deals the products out to the blocks: where one product's left-over tiles end, the next begins.
class LinearList {
 public:
  explicit LinearList(int32_t blocks) : blocks_(blocks) {}

  void Add(const Weight& weight, const float* bias, const float* norm_weight,
           const float* norm_bias, StackInput input, StackOutput output) {
    const auto& w = static_cast<const CudaWeight&>(weight);
    const bool gated = output == StackOutput::kActivateGated;
    StackLinear linear = {.weight = w.buffer->data(),
                          .bias = bias,
                          .norm_weight = norm_weight,
                          .norm_bias = norm_bias,
                          .n = gated ? w.n / 2 : w.n,
                          .k = w.k,
                          .stride = w.stride,
                          .tiles = static_cast<int32_t>(CeilDiv(w.n, kTileRows)),
                          .rotation = rotation_,
                          .input = input,
                          .output = output};
    rotation_ = (rotation_ + linear.tiles) % blocks_;
    list_.push_back(linear);
  }
  const std::vector<StackLinear>& list() const { return list_; }

 private:
  const int32_t blocks_;
  int32_t rotation_ = 0;
  std::vector<StackLinear> list_;
};

std::vector<StackLinear> ListLinears(const DecodeStackModel& m, int32_t blocks) {
  LinearList linears(blocks);
  const StackOutput up = m.gated ? StackOutput::kActivateGated : StackOutput::kActivate;
  for (const DecodeStackLayer& layer : m.layers) {
    linears.Add(*layer.qkv, layer.qkv_bias, layer.attention_norm_weight, layer.attention_norm_bias,
                StackInput::kResidualNormed, StackOutput::kStore);
    linears.Add(*layer.attention_output, layer.attention_output_bias, nullptr, nullptr,
                StackInput::kAttended, StackOutput::kAccumulate);
    linears.Add(*layer.ffn_up, layer.ffn_up_bias, layer.ffn_norm_weight, layer.ffn_norm_bias,
                StackInput::kResidualNormed, up);
    linears.Add(*layer.ffn_down, layer.ffn_down_bias, nullptr, nullptr, StackInput::kActivated,
                StackOutput::kAccumulate);
  }
  linears.Add(*m.head, nullptr, m.final_norm_weight, m.final_norm_bias, StackInput::kResidualNormed,
              StackOutput::kLogits);
  return linears.list();
}

std::vector<StackAttention> ListAttentions(const DecodeStackModel& m) {
  std::vector<StackAttention> attentions;
  for (const DecodeStackLayer& layer : m.layers) {
    attentions.push_back(
        {layer.q_norm_weight, layer.k_norm_weight, layer.attention_scale, layer.window});
  }
  return attentions;
}

template <typename Item>
absl::StatusOr<std::unique_ptr<Buffer>> Upload(Device& device, Stream& stream,
                                               const std::vector<Item>& items) {
  const size_t bytes = items.size() * sizeof(Item);
  auto staging = device.Allocate(Space::kPinnedHost, bytes);
  if (!staging.ok()) return staging.status();
  auto buffer = device.Allocate(Space::kDevice, bytes);
  if (!buffer.ok()) return buffer.status();
  std::memcpy((*staging)->data(), items.data(), bytes);
  stream.Copy((*buffer)->data(), (*staging)->data(), bytes);
  if (absl::Status status = device.Sync(stream); !status.ok()) return status;
  return buffer;
}

// Sizes of the template: lanes that hold a head, query heads that share a KV head.
int32_t LanesOf(int32_t head_dim) { return head_dim <= 64 ? 8 : 16; }
int32_t HeadsOf(int32_t group) { return group <= 1 ? 1 : group <= 4 ? 4 : 8; }

template <typename Fn>
void WithSizes(DType dtype, int32_t lanes, int32_t heads, const Fn& fn) {
  const auto with_heads = [&](auto type, auto lane_count) {
    if (heads == 1) return fn(type, lane_count, std::integral_constant<int, 1>{});
    if (heads == 4) return fn(type, lane_count, std::integral_constant<int, 4>{});
    fn(type, lane_count, std::integral_constant<int, 8>{});
  };
  const auto with_lanes = [&](auto type) {
    if (lanes == 8) return with_heads(type, std::integral_constant<int, 8>{});
    with_heads(type, std::integral_constant<int, 16>{});
  };
  if (dtype == DType::kBF16) return with_lanes(__nv_bfloat16{});
  with_lanes(__half{});
}

class CudaDecodeStack final : public DecodeStack {
 public:
  static absl::StatusOr<std::unique_ptr<DecodeStack>> Create(Device& device,
                                                             const DecodeStackModel& m) {
    auto stack = std::unique_ptr<CudaDecodeStack>(new CudaDecodeStack(m));
    auto stream = device.NewStream();
    if (!stream.ok()) return stream.status();
    stack->blocks_ = OnCuda(**stream).multiprocessors();
    auto linears = Upload(device, **stream, ListLinears(m, stack->blocks_));
    if (!linears.ok()) return linears.status();
    stack->linears_ = *std::move(linears);
    auto attentions = Upload(device, **stream, ListAttentions(m));
    if (!attentions.ok()) return attentions.status();
    stack->attentions_ = *std::move(attentions);
    auto barrier = device.Allocate(Space::kDevice, 2 * sizeof(uint32_t));  // zeroed
    if (!barrier.ok()) return barrier.status();
    stack->barrier_ = *std::move(barrier);
    stack->FindMaxRows();
    if (stack->max_rows_ == 0) return nullptr;
    stack->AllowShared(**stream);
    return stack;
  }

  int32_t max_rows() const override { return max_rows_; }

  void Enqueue(Stream& stream, const DecodeStackArgs& args) const {
    const CudaScratch& scratch = OnCuda(stream).scratch();
    StackKernelArgs a = ArgsFor(args.shape.max_rows);
    a.record = args.record;
    a.tables = args.tables;
    a.kv = args.kv;
    a.partials = static_cast<float*>(scratch.data);
    const size_t partial_bytes = sizeof(float) * static_cast<size_t>(a.max_rows) *
                                 static_cast<size_t>(m_.q_heads) * kStackMaxShares *
                                 static_cast<size_t>(m_.head_dim + 2);
    if (partial_bytes > scratch.bytes) {
      return OnCuda(stream).Fail(absl::ResourceExhaustedError("decode_stack: scratch too small"));
    }
    const LaunchShape shape = {.grid = static_cast<unsigned>(blocks_),
                               .block = kStackBlock,
                               .shared_bytes = StackLayout(a, nullptr).bytes,
                               .all_resident = true};
    WithSizes(m_.head->dtype, lanes_, heads_, [&](auto type, auto lanes, auto heads) {
      LaunchKernel(stream, "decode_stack", DecodeStackKernel<decltype(type), lanes, heads>, shape,
                   a);
    });
  }

 private:
  explicit CudaDecodeStack(const DecodeStackModel& m)
      : m_(m), lanes_(LanesOf(m.head_dim)), heads_(HeadsOf(m.q_heads / m.kv_heads)) {}

  // All that is fixed, and the ring as large as the shared memory leaves for so many rows.
  StackKernelArgs ArgsFor(int32_t rows) const {
    StackKernelArgs a;
    a.linears = reinterpret_cast<const StackLinear*>(linears_->data());
    a.attentions = reinterpret_cast<const StackAttention*>(attentions_->data());
    a.layers = static_cast<int32_t>(m_.layers.size());
    a.width = m_.head->k;
    a.max_rows = rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : kStackRows;
    a.tokens = m_.tokens;
    a.token_embedding = m_.token_embedding;
    a.position_embedding = m_.position_embedding;
    a.norm_epsilon = m_.norm_epsilon;
    a.q_heads = m_.q_heads;
    a.head_dim = m_.head_dim;
    a.rotary_dim = m_.rotary_dim;
    a.inv_freq = m_.inv_freq;
    a.rope_scale = m_.rope_scale;
    a.activation = m_.activation;
    a.residual = m_.residual;
    a.qkv = m_.qkv;
    a.attended = m_.attended;
    a.activated = m_.activated;
    a.logits = m_.logits;
    a.barrier = reinterpret_cast<uint32_t*>(barrier_->data());
    a.stage_depth = StageDepth(a.width);
    a.input_bytes = InputBytes(a.max_rows);
    const size_t used = StackLayout(a, nullptr).bytes;
    const size_t stage = static_cast<size_t>(StageBytes(a.stage_depth)) + 2 * sizeof(SharedBarrier);
    constexpr size_t kRounding = 3 * 128;
    if (used + kRounding < kSharedLimit) {
      a.stages = static_cast<int32_t>((kSharedLimit - used - kRounding) / stage);
    }
    return a;
  }

  int32_t InputBytes(int32_t rows) const {
    const int32_t width = m_.head->k;
    const int32_t normed =
        rows * (PaddedRowBytes(width) + width * static_cast<int32_t>(sizeof(float)));
    const int32_t attended = rows * PaddedRowBytes(m_.q_heads * m_.head_dim);
    const int32_t activated = rows * PaddedRowBytes(m_.layers[0].ffn_down->k);
    return std::max(
        {normed, attended, activated, AttentionSharedBytes(lanes_, heads_, m_.head_dim)});
  }

  void FindMaxRows() {
    for (max_rows_ = kStackRows; max_rows_ > 0; max_rows_ /= 2) {
      if (ArgsFor(max_rows_).stages >= kLeastStages) return;
    }
  }

  void AllowShared(Stream& stream) const {
    WithSizes(m_.head->dtype, lanes_, heads_, [&](auto type, auto lanes, auto heads) {
      AllowSharedBytes(stream, "decode_stack", DecodeStackKernel<decltype(type), lanes, heads>,
                       kSharedLimit);
    });
  }

  const DecodeStackModel m_;
  const int32_t lanes_;
  const int32_t heads_;
  int32_t blocks_ = 0;
  int32_t max_rows_ = 0;
  std::unique_ptr<Buffer> linears_;
  std::unique_ptr<Buffer> attentions_;
  std::unique_ptr<Buffer> barrier_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeStack>> MakeCudaDecodeStack(Device& device,
                                                                 const DecodeStackModel& model) {
  if (!Takes(model)) return nullptr;
  return CudaDecodeStack::Create(device, model);
}

void EnqueueDecodeStack(Stream& stream, const DecodeStackArgs& a) {
  static_cast<const CudaDecodeStack*>(a.stack)->Enqueue(stream, a);
}

}  // namespace rally
