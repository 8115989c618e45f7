// A tokenizer out of a tiktoken ranks file: lines of a base64 piece and its rank, which is its id.
#ifndef RALLY_ENGINE_TEXT_TIKTOKEN_FILE_H_
#define RALLY_ENGINE_TEXT_TIKTOKEN_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace rally {

// The file holds neither the pre-tokeniser nor the special tokens; its name stands for them, as in
// tiktoken's registry. Known: gpt2.tiktoken and r50k_base.tiktoken (GPT-2's rule, <|endoftext|> is
// id 50256). UNIMPLEMENTED for another name.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktokenFile(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_TIKTOKEN_FILE_H_
