// What the executor needs of a model: enqueue one step. Transformer is the real one.
#ifndef RALLY_ENGINE_MODEL_DECODER_MODEL_H_
#define RALLY_ENGINE_MODEL_DECODER_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace rally {

// Device pointers of one half (parity) of the step buffers, and the state that both halves share.
struct StepTensors {
  StepRecordView record;
  StepOutcomeView outcome;
  SlotTables tables;
  std::byte* kv_base = nullptr;
};

class DecoderModel {
 public:
  virtual ~DecoderModel() = default;
  // Bytes of one KV block of `block_tokens` positions, all layers.
  virtual int64_t KvBlockBytes(int32_t block_tokens) const = 0;
  // Positions that the model knows; ids are in [0, vocab_size).
  virtual int32_t context_length() const = 0;
  virtual int32_t vocab_size() const = 0;
  // Device memory of parameters and, once prepared, activations; the KV pool is the engine's.
  virtual int64_t resident_bytes() const = 0;
  // Once, before the first Forward: plans all activation memory.
  virtual absl::Status Prepare(const StepLimits& limits, int32_t block_tokens) = 0;
  // Enqueues a whole step: from ApplyRecord to Sample. Pure: no sync, no allocation, fixed
  // addresses, so that it can be captured. The steps that it serves stay within `shape`.
  virtual void Forward(Stream& stream, const StepTensors& step, const StepShape& shape) = 0;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_DECODER_MODEL_H_
