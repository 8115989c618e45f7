#include "engine/model/row_sources.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/model_files.h"

namespace rally {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

class Memory : public RowSource {
 public:
  Memory(int64_t rows, int64_t cols, float start) : rows_(rows), cols_(cols), start_(start) {}
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    ++reads;
    if (first < 0 || first + count > rows_) return absl::OutOfRangeError("rows");
    for (int64_t i = 0; i < count * cols_; ++i) out[i] = start_ + first * cols_ + i;
    return absl::OkStatus();
  }
  mutable int reads = 0;

 private:
  const int64_t rows_, cols_;
  const float start_;
};

std::unique_ptr<RowSource> Rows(int64_t rows, int64_t cols, float start) {
  return std::make_unique<Memory>(rows, cols, start);
}

template <typename... Parts>
std::vector<std::unique_ptr<RowSource>> List(Parts... parts) {
  std::vector<std::unique_ptr<RowSource>> list;
  (list.push_back(std::move(parts)), ...);
  return list;
}

// Every range of rows gives what the whole gives, and no range outside is served.
void ExpectRangesAgree(const RowSource& source) {
  const std::vector<float> whole = ReadAll(source);
  for (int64_t first = 0; first <= source.rows(); ++first) {
    for (int64_t count = 0; first + count <= source.rows(); ++count) {
      std::vector<float> part(static_cast<size_t>(count * source.cols()));
      ASSERT_TRUE(source.Read(first, count, part.data()).ok());
      ASSERT_THAT(part, ElementsAreArray(whole.data() + first * source.cols(), part.size()))
          << first << " + " << count;
    }
  }
  float out[64];
  EXPECT_FALSE(source.Read(-1, 1, out).ok());
  EXPECT_FALSE(source.Read(source.rows(), 1, out).ok());
  EXPECT_FALSE(source.Read(0, source.rows() + 1, out).ok());
  EXPECT_FALSE(source.Read(1, INT64_MAX, out).ok());
}

TEST(RowSources, Stack) {
  const auto rows = StackRows(List(Rows(2, 3, 0), Rows(1, 3, 100), Rows(3, 3, 200)));
  EXPECT_EQ(rows->rows(), 6);
  EXPECT_THAT(ReadAll(*rows), ElementsAre(0, 1, 2, 3, 4, 5, 100, 101, 102, 200, 201, 202, 203, 204,
                                          205, 206, 207, 208));
  ExpectRangesAgree(*rows);
}

TEST(RowSources, JoinVectors) {
  const auto rows = JoinVectors(List(Rows(1, 2, 0), Rows(1, 3, 10), Rows(1, 1, 20)));
  EXPECT_EQ(rows->rows(), 1);
  EXPECT_THAT(ReadAll(*rows), ElementsAre(0, 1, 10, 11, 12, 20));
  ExpectRangesAgree(*rows);
}

TEST(RowSources, Transpose) {
  const auto rows = TransposeRows(Rows(2, 3, 0));
  EXPECT_EQ(rows->rows(), 3);
  EXPECT_EQ(rows->cols(), 2);
  EXPECT_THAT(ReadAll(*rows), ElementsAre(0, 3, 1, 4, 2, 5));
  ExpectRangesAgree(*rows);
}

TEST(RowSources, TransposeReadsItsSourceOnceForOnePass) {
  auto memory = std::make_unique<Memory>(4, 5, 0);
  const Memory& source = *memory;
  const auto rows = TransposeRows(std::move(memory));
  float out[4];
  for (int pass = 1; pass <= 2; ++pass) {
    for (int64_t r = 0; r < 5; ++r) ASSERT_TRUE(rows->Read(r, 1, out).ok());
    EXPECT_EQ(source.reads, pass);
  }
}

// numpy: arange(16).reshape(2, 2, 4).swapaxes(1, 2) is what the converter makes of arange(16), two
// heads of 8: [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, ...]. Undone, the stored index of value i is
// [0, 2, 4, 6, 1, 3, 5, 7].
TEST(RowSources, UnpermuteHeads) {
  const auto rows = UnpermuteHeads(Rows(16, 1, 0), 8);
  EXPECT_THAT(ReadAll(*rows), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
  ExpectRangesAgree(*rows);
  const auto wide = UnpermuteHeads(Rows(8, 2, 0), 8);
  EXPECT_THAT(ReadAll(*wide), ElementsAre(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  ExpectRangesAgree(*wide);
  const auto vector = UnpermuteHeads(Rows(1, 16, 0), 8);
  EXPECT_THAT(ReadAll(*vector), ElementsAreArray(ReadAll(*rows)));
  ExpectRangesAgree(*vector);
}

TEST(RowSources, NullGoesThrough) {
  EXPECT_EQ(StackRows(List(Rows(1, 1, 0), std::unique_ptr<RowSource>())), nullptr);
  EXPECT_EQ(JoinVectors(List(std::unique_ptr<RowSource>())), nullptr);
  EXPECT_EQ(TransposeRows(nullptr), nullptr);
  EXPECT_EQ(UnpermuteHeads(nullptr, 8), nullptr);
  EXPECT_EQ(ShareRows(nullptr), nullptr);
}

TEST(RowSources, SameRows) {
  EXPECT_TRUE(*SameRows(*Rows(700, 3, 0), *Rows(700, 3, 0)));
  EXPECT_FALSE(*SameRows(*Rows(700, 3, 0), *Rows(700, 3, 1)));
  EXPECT_FALSE(*SameRows(*Rows(3, 2, 0), *Rows(2, 3, 0)));
}

TEST(RowSources, FileRowsInChunks) {
  constexpr int64_t kRows = 3000, kCols = 257;  // three megabytes: more than one buffer
  std::vector<float> values(kRows * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  TempDir dir;
  const auto file = InputFile::Open(dir.Write("f", "head" + RawFloats(values)));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto rows = FileRows({.file = *file,
                              .name = "t",
                              .offset = 4,
                              .rows = kRows,
                              .cols = kCols,
                              .row_bytes = kCols * 4,
                              .decode = DecodeF32});
  EXPECT_TRUE(ReadAll(*rows) == values);
  std::vector<float> part(2 * kCols);
  ASSERT_TRUE(rows->Read(kRows - 2, 2, part.data()).ok());
  EXPECT_THAT(part, ElementsAreArray(values.end() - 2 * kCols, values.end()));
  EXPECT_FALSE(rows->Read(kRows - 1, 2, part.data()).ok());
  EXPECT_FALSE(rows->Read(-1, 1, part.data()).ok());
}

}  // namespace
}  // namespace rally
