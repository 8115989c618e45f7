// A decoder for the scripted device whose next token is a hash of everything it read.
//
// kv_append stores hash(seed, position, token) in the sequence's block; attention folds what it
// finds through the block table from position 0 on; the next token follows from the fold, the seed
// and the position in the output. A block reused too early, a stale slot or a half-copied record
// therefore shows as a wrong token, and a plain function gives the expected stream.
#ifndef RALLY_TESTS_TESTING_HASH_CHAIN_MODEL_H_
#define RALLY_TESTS_TESTING_HASH_CHAIN_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/decoder_model.h"
#include "engine/text/vocabulary.h"
#include "tests/testing/scripted_device.h"

namespace rally {

inline constexpr int32_t kHashVocabulary = 32;

class HashChainModel : public DecoderModel {
 public:
  HashChainModel(const ScriptedDevice* device, int32_t context_length)
      : device_(device), context_length_(context_length) {}

  int64_t KvBlockBytes(int32_t block_tokens) const override { return 8 * int64_t{block_tokens}; }
  int32_t context_length() const override { return context_length_; }
  int32_t vocab_size() const override { return kHashVocabulary; }
  int64_t resident_bytes() const override { return 0; }
  absl::Status Prepare(const StepLimits& limits, int32_t block_tokens) override;
  void Forward(Stream& stream, const StepTensors& step, const StepShape& shape) override;

 private:
  void KvAppend(const StepTensors& step);
  void Sample(const StepTensors& step);
  uint64_t* KvAt(const StepTensors& step, int32_t slot, int32_t position) const;

  const ScriptedDevice* const device_;
  const int32_t context_length_;
  int32_t block_tokens_ = 0;
  StepLimits limits_;
  std::vector<TokenMeta> tokens_;
};

struct HashChainRequest {
  std::span<const int32_t> prompt;
  uint64_t seed = 0;
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;
  std::span<const int32_t> stop_ids;
};

// What the model gives for a request on its own: ends with a stop id or with max_tokens.
std::vector<int32_t> HashChainStream(const HashChainRequest& request);

// Ids 0 and 1 are special (no text); the others spell one or two small letters.
Vocabulary HashChainVocabulary();

}  // namespace rally

#endif  // RALLY_TESTS_TESTING_HASH_CHAIN_MODEL_H_
