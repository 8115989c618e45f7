// Reading of files by pread into the caller's memory. Nothing is mapped: a file that shrinks
// while it is read is an error and not a SIGBUS.
#ifndef RALLY_ENGINE_BASE_INPUT_FILE_H_
#define RALLY_ENGINE_BASE_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rally {

// An open regular file. Any thread may read.
class InputFile {
 public:
  static absl::StatusOr<std::shared_ptr<const InputFile>> Open(const std::string& path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  // As it was when the file was opened.
  uint64_t size_bytes() const { return size_bytes_; }
  // OUT_OF_RANGE beyond the size; DATA_LOSS where the file has become shorter.
  absl::Status ReadAt(uint64_t offset, void* out, size_t bytes) const;

 private:
  InputFile(std::string path, int fd, uint64_t size_bytes)
      : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes) {}

  const std::string path_;
  const int fd_;
  const uint64_t size_bytes_;
};

// Tokenizer files, the largest of the texts, are some 20 MB at most.
inline constexpr size_t kMaxTextFileBytes = size_t{256} << 20;

// The whole of a file of at most `max_bytes`. NOT_FOUND: there is no file of that name.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t max_bytes = kMaxTextFileBytes);

}  // namespace rally

#endif  // RALLY_ENGINE_BASE_INPUT_FILE_H_
