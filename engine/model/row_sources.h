// Row sources that are made of a file or of other row sources.
//
// Each function takes null for null, so that a loader can pass on what it could not find and report
// the error once.
#ifndef RALLY_ENGINE_MODEL_ROW_SOURCES_H_
#define RALLY_ENGINE_MODEL_ROW_SOURCES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/input_file.h"
#include "kernels/ops.h"

namespace rally {

// Turns the stored form of `count` consecutive elements into fp32.
using DecodeFn = void (*)(const std::byte* stored, int64_t count, float* out);

void DecodeF32(const std::byte* stored, int64_t count, float* out);
void DecodeF16(const std::byte* stored, int64_t count, float* out);
void DecodeBF16(const std::byte* stored, int64_t count, float* out);

// A row-major matrix in a file, whose extent has been checked.
struct FileMatrix {
  std::shared_ptr<const InputFile> file;
  std::string name;  // of the tensor, for messages
  uint64_t offset = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;
  DecodeFn decode = nullptr;
};

// Refuses to hand out NaN or infinity: DATA_LOSS with the tensor's name.
std::unique_ptr<RowSource> FileRows(FileMatrix matrix);

// All rows of the first part, then all of the second, ...; one width.
std::unique_ptr<RowSource> StackRows(std::vector<std::unique_ptr<RowSource>> parts);
// Vectors (1, n) end to end.
std::unique_ptr<RowSource> JoinVectors(std::vector<std::unique_ptr<RowSource>> parts);
// Reads the whole of `source` once and keeps it until its last row (of the transposed matrix) has
// been read, so that a reader that goes from the top to the bottom holds one tensor at a time.
std::unique_ptr<RowSource> TransposeRows(std::unique_ptr<RowSource> source);
// Takes the heads of a q or k projection from the order of llama.cpp's converter (the two values of
// a rotated pair side by side: 0, h, 1, h + 1, ... with h = head_dim / 2) back to halves. A matrix
// (heads * head_dim, k) by rows, a vector (1, heads * head_dim) by elements.
std::unique_ptr<RowSource> UnpermuteHeads(std::unique_ptr<RowSource> source, int64_t head_dim);
// The same rows under a second owner.
std::unique_ptr<RowSource> ShareRows(std::shared_ptr<const RowSource> source);

// Whether both hold the same values. Reads both.
absl::StatusOr<bool> SameRows(const RowSource& a, const RowSource& b);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_ROW_SOURCES_H_
