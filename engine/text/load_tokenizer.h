// Finds the tokenizer of a model directory.
#ifndef RALLY_ENGINE_TEXT_LOAD_TOKENIZER_H_
#define RALLY_ENGINE_TEXT_LOAD_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace rally {

// Reads tokenizer.json if it is there, else vocab.json with merges.txt, else the one *.tiktoken
// file. NOT_FOUND if the directory has none of them.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromDirectory(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_LOAD_TOKENIZER_H_
