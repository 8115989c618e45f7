// The parts of a tokenizer.json around its model: normaliser, pre-tokeniser, decoder and
// post-processor, read into the options of the tokenizer classes.
#ifndef RALLY_ENGINE_TEXT_TOKENIZER_JSON_PIPELINE_H_
#define RALLY_ENGINE_TEXT_TOKENIZER_JSON_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/byte_level_bpe.h"
#include "engine/text/json_view.h"
#include "engine/text/sentencepiece_bpe.h"

namespace rally {

// `root` is the whole document. True if its pre-tokeniser has a ByteLevel part.
absl::StatusOr<bool> IsByteLevel(const JsonView& root);

// The options that the parts around the model set; those of the model stay as they are.
absl::StatusOr<ByteLevelBpeOptions> ReadByteLevelPipeline(const JsonView& root);
absl::StatusOr<SentencePieceBpeOptions> ReadSentencePiecePipeline(const JsonView& root);

// The ids that the post-processor puts around a single sequence.
struct TemplateIds {
  std::vector<int64_t> prefix;
  std::vector<int64_t> suffix;
};
absl::StatusOr<TemplateIds> ReadTemplateIds(const JsonView& root);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_TOKENIZER_JSON_PIPELINE_H_
