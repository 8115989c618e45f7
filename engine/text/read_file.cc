#include "engine/text/read_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rally {

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  if (size > static_cast<uintmax_t>(max_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": ", size, " bytes, more than the ", max_bytes, " allowed"));
  }
  std::string content(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(content.data(), static_cast<std::streamsize>(size))) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  }
  return content;
}

}  // namespace rally
