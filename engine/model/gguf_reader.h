// Scalars, strings and metadata values from the head of a GGUF file, in order.
#ifndef RALLY_ENGINE_MODEL_GGUF_READER_H_
#define RALLY_ENGINE_MODEL_GGUF_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/input_file.h"
#include "nlohmann/json.hpp"

namespace rally {

// The first error sticks; after it everything reads as zero or empty. A length is compared with
// what is left of the file, and with a cap, before memory is taken for it.
class GgufReader {
 public:
  // `file` must outlive the reader.
  explicit GgufReader(const InputFile& file) : file_(file) {}

  template <typename T>
  T Scalar() {
    static_assert(std::is_arithmetic_v<T>);
    T value = 0;
    Bytes(&value, sizeof value);
    return value;
  }
  std::string String();
  // A value of a metadata type (the ids of the format); arrays become JSON arrays.
  nlohmann::json Value(uint32_t type) { return Value(type, 0); }

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size_bytes() - position_; }
  void Fail(absl::string_view message);
  const absl::Status& status() const { return status_; }

 private:
  void Bytes(void* out, size_t bytes);
  nlohmann::json Value(uint32_t type, int depth);
  nlohmann::json Array(int depth);

  const InputFile& file_;
  uint64_t position_ = 0;
  std::vector<char> window_;  // what was read ahead
  size_t window_at_ = 0;
  uint64_t values_ = 0;
  absl::Status status_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_READER_H_
