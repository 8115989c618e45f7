// A tokenizer out of vocab.json and merges.txt, the files that GPT-2 came with.
#ifndef RALLY_ENGINE_TEXT_GPT2_FILES_H_
#define RALLY_ENGINE_TEXT_GPT2_FILES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace rally {

// GPT-2's pre-tokeniser. <|endoftext|>, if it is in the vocabulary, is special and the end id.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGpt2Files(const std::string& vocab_json_path,
                                                         const std::string& merges_txt_path);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_GPT2_FILES_H_
