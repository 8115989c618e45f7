// A tokenizer out of Hugging Face's tokenizer.json.
#ifndef RALLY_ENGINE_TEXT_TOKENIZER_JSON_H_
#define RALLY_ENGINE_TEXT_TOKENIZER_JSON_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace rally {

// Reads the file, and `eos_token` of the tokenizer_config.json beside it, if there is one.
//
// Supported: model BPE without dropout, prefix or suffix; and around it either of
// - byte-level: normaliser none or NFC; pre-tokenisers Digits (individual) and Split (a known
//   regular expression, isolated), then ByteLevel; decoder ByteLevel;
// - SentencePiece: normaliser Prepend and Replace, or pre-tokeniser Metaspace; decoder Replace,
//   ByteFallback, Fuse, Strip.
// Post-processors TemplateProcessing (a single sequence) and ByteLevel. A part that is not
// supported is UNIMPLEMENTED, with its place and name; a wrong file is INVALID_ARGUMENT.
// `truncation` and `padding` are not applied: the engine has limits of its own.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_TOKENIZER_JSON_H_
