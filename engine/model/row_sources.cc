#include "engine/model/row_sources.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"

namespace rally {
namespace {

absl::Status CheckRange(const RowSource& source, int64_t first, int64_t count) {
  if (first < 0 || count < 0 || first > source.rows() || count > source.rows() - first) {
    return absl::OutOfRangeError(
        absl::StrCat("rows ", first, " to ", first, " + ", count, " of ", source.rows()));
  }
  return absl::OkStatus();
}

bool AnyNull(const std::vector<std::unique_ptr<RowSource>>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part == nullptr; });
}

class StackedRows : public RowSource {
 public:
  explicit StackedRows(std::vector<std::unique_ptr<RowSource>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) rows_ += part->rows();
  }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return parts_.front()->cols(); }

  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    RALLY_RETURN_IF_ERROR(CheckRange(*this, first, count));
    for (const auto& part : parts_) {
      if (first < part->rows() && count > 0) {
        const int64_t here = std::min(count, part->rows() - first);
        RALLY_RETURN_IF_ERROR(part->Read(first, here, out));
        out += here * cols();
        count -= here;
        first += here;
      }
      first -= part->rows();
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::unique_ptr<RowSource>> parts_;
  int64_t rows_ = 0;
};

class JoinedVectors : public RowSource {
 public:
  explicit JoinedVectors(std::vector<std::unique_ptr<RowSource>> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) cols_ += part->cols();
  }
  int64_t rows() const override { return 1; }
  int64_t cols() const override { return cols_; }

  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    RALLY_RETURN_IF_ERROR(CheckRange(*this, first, count));
    for (const auto& part : parts_) {
      RALLY_RETURN_IF_ERROR(part->Read(first, count, out));
      out += part->cols();
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::unique_ptr<RowSource>> parts_;
  int64_t cols_ = 0;
};

class TransposedRows : public RowSource {
 public:
  explicit TransposedRows(std::unique_ptr<RowSource> source) : source_(std::move(source)) {}
  int64_t rows() const override { return source_->cols(); }
  int64_t cols() const override { return source_->rows(); }

  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    RALLY_RETURN_IF_ERROR(CheckRange(*this, first, count));
    const absl::MutexLock lock(&mutex_);
    if (whole_.empty()) {
      std::vector<float> values(static_cast<size_t>(source_->rows() * source_->cols()));
      RALLY_RETURN_IF_ERROR(source_->Read(0, source_->rows(), values.data()));
      whole_ = std::move(values);
    }
    // By source rows, so that what is read lies together.
    for (int64_t c = 0; c < cols(); ++c) {
      const float* from = whole_.data() + c * rows() + first;
      for (int64_t r = 0; r < count; ++r) out[r * cols() + c] = from[r];
    }
    if (first + count == rows()) std::vector<float>().swap(whole_);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<RowSource> source_;
  mutable absl::Mutex mutex_;
  mutable std::vector<float> whole_ ABSL_GUARDED_BY(mutex_);
};

class UnpermutedHeads : public RowSource {
 public:
  UnpermutedHeads(std::unique_ptr<RowSource> source, int64_t head_dim)
      : source_(std::move(source)), head_dim_(head_dim) {}
  int64_t rows() const override { return source_->rows(); }
  int64_t cols() const override { return source_->cols(); }

  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    RALLY_RETURN_IF_ERROR(CheckRange(*this, first, count));
    if (rows() == 1) return ReadVector(count, out);
    // Whole heads at a time: their rows are stored together.
    std::vector<float> head(static_cast<size_t>(head_dim_ * cols()));
    const int64_t end = first + count;
    for (int64_t begin = first - first % head_dim_; begin < end; begin += head_dim_) {
      RALLY_RETURN_IF_ERROR(source_->Read(begin, head_dim_, head.data()));
      for (int64_t r = std::max(begin, first); r < std::min(begin + head_dim_, end); ++r) {
        std::copy_n(head.data() + StoredIndex(r - begin) * cols(), cols(),
                    out + (r - first) * cols());
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadVector(int64_t count, float* out) const {
    if (count == 0) return absl::OkStatus();
    std::vector<float> stored(static_cast<size_t>(cols()));
    RALLY_RETURN_IF_ERROR(source_->Read(0, 1, stored.data()));
    for (int64_t i = 0; i < cols(); ++i) {
      out[i] = stored[static_cast<size_t>(i - i % head_dim_ + StoredIndex(i % head_dim_))];
    }
    return absl::OkStatus();
  }
  // Where the file keeps value `i` of a head.
  int64_t StoredIndex(int64_t i) const {
    const int64_t half = head_dim_ / 2;
    return i < half ? 2 * i : 2 * (i - half) + 1;
  }

  const std::unique_ptr<RowSource> source_;
  const int64_t head_dim_;
};

class SharedRows : public RowSource {
 public:
  explicit SharedRows(std::shared_ptr<const RowSource> source) : source_(std::move(source)) {}
  int64_t rows() const override { return source_->rows(); }
  int64_t cols() const override { return source_->cols(); }
  absl::Status Read(int64_t first, int64_t count, float* out) const override {
    return source_->Read(first, count, out);
  }

 private:
  const std::shared_ptr<const RowSource> source_;
};

}  // namespace

std::unique_ptr<RowSource> StackRows(std::vector<std::unique_ptr<RowSource>> parts) {
  if (AnyNull(parts)) return nullptr;
  return std::make_unique<StackedRows>(std::move(parts));
}

std::unique_ptr<RowSource> JoinVectors(std::vector<std::unique_ptr<RowSource>> parts) {
  if (AnyNull(parts)) return nullptr;
  return std::make_unique<JoinedVectors>(std::move(parts));
}

std::unique_ptr<RowSource> TransposeRows(std::unique_ptr<RowSource> source) {
  if (source == nullptr) return nullptr;
  return std::make_unique<TransposedRows>(std::move(source));
}

std::unique_ptr<RowSource> UnpermuteHeads(std::unique_ptr<RowSource> source, int64_t head_dim) {
  if (source == nullptr) return nullptr;
  return std::make_unique<UnpermutedHeads>(std::move(source), head_dim);
}

std::unique_ptr<RowSource> ShareRows(std::shared_ptr<const RowSource> source) {
  if (source == nullptr) return nullptr;
  return std::make_unique<SharedRows>(std::move(source));
}

absl::StatusOr<bool> SameRows(const RowSource& a, const RowSource& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  constexpr int64_t kChunk = 256;
  std::vector<float> left(static_cast<size_t>(kChunk * a.cols())), right(left.size());
  for (int64_t first = 0; first < a.rows(); first += kChunk) {
    const int64_t count = std::min(kChunk, a.rows() - first);
    RALLY_RETURN_IF_ERROR(a.Read(first, count, left.data()));
    RALLY_RETURN_IF_ERROR(b.Read(first, count, right.data()));
    if (!std::equal(left.begin(), left.begin() + count * a.cols(), right.begin())) return false;
  }
  return true;
}

}  // namespace rally
