#include "engine/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace rally {

absl::StatusOr<std::shared_ptr<const InputFile>> InputFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return std::shared_ptr<const InputFile>(
      new InputFile(path, fd, static_cast<uint64_t>(info.st_size)));
}

InputFile::~InputFile() { close(fd_); }

absl::Status InputFile::ReadAt(uint64_t offset, void* out, size_t bytes) const {
  if (offset > size_bytes_ || bytes > size_bytes_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": ", bytes, " bytes at offset ", offset,
                                              " lie beyond its ", size_bytes_, " bytes"));
  }
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read"));
    }
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  RALLY_ASSIGN_OR_RETURN(const std::shared_ptr<const InputFile> file, InputFile::Open(path));
  if (file->size_bytes() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", file->size_bytes(), " bytes, at most ", max_bytes, " expected"));
  }
  std::string text(file->size_bytes(), '\0');
  RALLY_RETURN_IF_ERROR(file->ReadAt(0, text.data(), text.size()));
  return text;
}

}  // namespace rally
