#include "engine/model/gguf_source.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/model/gguf.h"
#include "engine/model/gguf_config.h"
#include "engine/model/model_assembly.h"
#include "engine/model/row_sources.h"

namespace rally {
namespace {

TensorNames GgufNames(const std::string& architecture) {
  return {.token_embedding = "token_embd",
          .position_embedding = "position_embd",
          .final_norm = "output_norm",
          .head = "output",
          .layers = "blk.",
          .attention_norm = "attn_norm",
          .attention_output = "attn_output",
          .ffn_norm = "ffn_norm",
          .ffn_up = "ffn_up",
          .ffn_down = "ffn_down",
          .qkv = architecture == "gpt2" ? "attn_qkv" : "",
          .q = "attn_q",
          .k = "attn_k",
          .v = "attn_v",
          .q_norm = "attn_q_norm",
          .k_norm = "attn_k_norm",
          .ffn_gate = "ffn_gate",
          // llama.cpp's RoPE rotates neighbours for this architecture, so its converter moves rows.
          .permuted_qk = architecture == "llama"};
}

StoredTensor ToStored(const GgufFile& gguf, const GgufTensor& tensor) {
  StoredTensor stored = {tensor.name, tensor.type->name, tensor.shape, nullptr};
  const size_t rank = tensor.shape.size();
  if (tensor.type->decode == nullptr || rank < 1 || rank > 2) return stored;
  const int64_t cols = tensor.shape.back();
  stored.rows =
      FileRows({.file = gguf.file,
                .name = tensor.name,
                .offset = tensor.offset,
                .rows = rank == 2 ? tensor.shape[0] : 1,
                .cols = cols,
                .row_bytes = cols / tensor.type->block_elements * tensor.type->block_bytes,
                .decode = tensor.type->decode});
  return stored;
}

}  // namespace

absl::StatusOr<ModelSource> OpenGgufModel(const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(const GgufFile gguf, OpenGguf(path));
  RALLY_ASSIGN_OR_RETURN(ModelConfig config, ReadGgufConfig(gguf));
  TensorSet tensors(path);
  for (const GgufTensor& tensor : gguf.tensors) {
    RALLY_RETURN_IF_ERROR(tensors.Add(ToStored(gguf, tensor)));
  }
  // Part of the configuration by now.
  if (!config.learned_positions) tensors.Ignore("rope_freqs.weight");
  const TensorNames names = GgufNames(config.architecture);
  RALLY_ASSIGN_OR_RETURN(ModelSource model, AssembleModel(std::move(config), names, tensors));
  RALLY_RETURN_IF_ERROR(tensors.CheckAllUsed());
  return model;
}

}  // namespace rally
