#include "engine/text/load_tokenizer.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/text/gpt2_files.h"
#include "engine/text/tiktoken_file.h"
#include "engine/text/tokenizer_json.h"

namespace rally {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path directory(path);
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(directory / name, error); };
  if (has("tokenizer.json")) return LoadTokenizerJson((directory / "tokenizer.json").string());
  if (has("vocab.json") && has("merges.txt")) {
    return LoadGpt2Files((directory / "vocab.json").string(), (directory / "merges.txt").string());
  }
  std::vector<std::string> rank_files;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".tiktoken") rank_files.push_back(entry->path().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (rank_files.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": more than one *.tiktoken file"));
  }
  if (rank_files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        path, ": no tokenizer.json, no vocab.json with merges.txt and no *.tiktoken file"));
  }
  return LoadTiktokenFile(rank_files[0]);
}

}  // namespace rally
