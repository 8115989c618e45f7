// Whole files into memory, with a limit.
#ifndef RALLY_ENGINE_TEXT_READ_FILE_H_
#define RALLY_ENGINE_TEXT_READ_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace rally {

// Tokenizer files are some 20 MB at most.
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{256} << 20;

// NOT_FOUND: no regular file of that name. RESOURCE_EXHAUSTED: larger than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          int64_t max_bytes = kMaxTokenizerFileBytes);

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_READ_FILE_H_
