// Encodes a file with a tokenizer, for the comparison with other implementations.
//
//   tokenize_main TOKENIZER RECORDS [special]
//
// TOKENIZER is a model directory or a GGUF metadata file of the oracle script (JSON). RECORDS
// holds records, each a length (32 bits, little endian) and that many bytes. Each record is
// answered by two lines: its ids, and the hexadecimal bytes of the ids decoded again. "special"
// turns control tokens in the text into their ids.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "engine/base/input_file.h"
#include "engine/base/status_macros.h"
#include "engine/text/gguf_vocabulary.h"
#include "engine/text/json_view.h"
#include "engine/text/load_tokenizer.h"

namespace rally {
namespace {

// The metadata under the names of GgufVocabulary's fields; the script makes it, so it is trusted.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGgufMetadata(const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  RALLY_ASSIGN_OR_RETURN(const nlohmann::json json,
                         ParseJsonObject(text, path, kTokenizerJsonLimits));
  GgufVocabulary gguf;
  gguf.model = json.at("model");
  gguf.pre = json.at("pre");
  gguf.tokens = json.at("tokens").get<std::vector<std::string>>();
  gguf.scores = json.at("scores").get<std::vector<float>>();
  gguf.token_types = json.at("token_types").get<std::vector<int32_t>>();
  gguf.merges = json.at("merges").get<std::vector<std::string>>();
  gguf.bos_id = json.at("bos_id");
  gguf.eos_id = json.at("eos_id");
  gguf.unknown_id = json.at("unknown_id");
  gguf.has_add_bos = true;
  gguf.add_bos = json.at("add_bos");
  return MakeGgufTokenizer(gguf);
}

absl::Status Run(const std::string& tokenizer_path, const std::string& records_path,
                 bool parse_special) {
  RALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                         std::filesystem::is_directory(tokenizer_path)
                             ? LoadTokenizerFromDirectory(tokenizer_path)
                             : LoadGgufMetadata(tokenizer_path));
  RALLY_ASSIGN_OR_RETURN(const std::string records, ReadTextFile(records_path));
  EncodeOptions options;
  options.parse_special_tokens = parse_special;
  for (std::string_view rest = records; rest.size() >= sizeof(uint32_t);) {
    uint32_t size = 0;
    std::memcpy(&size, rest.data(), sizeof(size));
    const std::string_view record = rest.substr(sizeof(size), size);
    rest.remove_prefix(sizeof(size) + record.size());
    const std::vector<int32_t> ids = tokenizer->Encode(record, options);
    std::cout << absl::StrJoin(ids, " ") << '\n'
              << absl::BytesToHexString(tokenizer->Decode(ids, /*keep_special=*/false)) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rally

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenize_main TOKENIZER RECORDS [special]\n");
    return 2;
  }
  const absl::Status status =
      rally::Run(argv[1], argv[2], argc > 3 && std::string(argv[3]) == "special");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
