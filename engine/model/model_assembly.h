// Parameters by name -> ModelSource, for every kind of file.
#ifndef RALLY_ENGINE_MODEL_MODEL_ASSEMBLY_H_
#define RALLY_ENGINE_MODEL_MODEL_ASSEMBLY_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"
#include "engine/model/tensor_set.h"

namespace rally {

// How a kind of file calls the parameters and lays them out. Names of a layer follow its prefix
// "<layers><index>."; ".weight" and ".bias" are added.
struct TensorNames {
  std::string token_embedding{}, position_embedding{}, final_norm{}, head{};
  std::string layers{};
  std::string attention_norm{}, attention_output{}, ffn_norm{}, ffn_up{}, ffn_down{};
  std::string qkv{};          // q, k and v rows in one tensor; empty: in three
  std::string q{}, k{}, v{};  // where there are three
  std::string q_norm{}, k_norm{}, ffn_gate{};
  bool transposed = false;   // matrices of layers are stored (in, out), as GPT-2's Conv1D
  bool permuted_qk = false;  // rows of q and k in llama.cpp's order
};

// Takes every parameter that `config` asks for, once. A head that is there although the
// configuration ties it is the model's head where it differs from the embedding, as in
// transformers 5; config.tied_head says how it went.
absl::StatusOr<ModelSource> AssembleModel(ModelConfig config, const TensorNames& names,
                                          TensorProvider& tensors);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_MODEL_ASSEMBLY_H_
