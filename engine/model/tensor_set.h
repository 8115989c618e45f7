// Where a model's parameters come from by name, and the check that each stored one is used.
#ifndef RALLY_ENGINE_MODEL_TENSOR_SET_H_
#define RALLY_ENGINE_MODEL_TENSOR_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace rally {

// Hands out parameters by name. The first error sticks and null is returned from then on.
class TensorProvider {
 public:
  virtual ~TensorProvider() = default;
  virtual std::unique_ptr<RowSource> Matrix(const std::string& name, int64_t rows,
                                            int64_t cols) = 0;
  // (1, n)
  virtual std::unique_ptr<RowSource> Vector(const std::string& name, int64_t n) = 0;
  // Whether there is a tensor of that name that was not handed out yet.
  virtual bool Has(const std::string& name) const = 0;
  // For a tensor that is there and not needed.
  virtual void Ignore(const std::string& name) = 0;
  virtual absl::Status status() const = 0;
};

struct StoredTensor {
  std::string name;
  std::string type;            // as the file names it
  std::vector<int64_t> shape;  // row-major, outermost first
  // (shape[0], shape[1]) or (1, shape[0]); null: such a tensor cannot be a parameter
  std::unique_ptr<RowSource> rows;
};

// The tensors of a model's files; each is handed out once.
class TensorSet : public TensorProvider {
 public:
  // `where` (file or directory) starts every message.
  explicit TensorSet(std::string where) : where_(std::move(where)) {}

  absl::Status Add(StoredTensor tensor);

  std::unique_ptr<RowSource> Matrix(const std::string& name, int64_t rows, int64_t cols) override;
  std::unique_ptr<RowSource> Vector(const std::string& name, int64_t n) override;
  bool Has(const std::string& name) const override { return tensors_.contains(name); }
  void Ignore(const std::string& name) override { tensors_.erase(name); }
  absl::Status status() const override { return status_; }

  // Names what is left: a tensor that the model does not know may change what it computes.
  absl::Status CheckAllUsed() const;

 private:
  std::unique_ptr<RowSource> Take(const std::string& name, const std::vector<int64_t>& shape);

  std::string where_;
  std::map<std::string, StoredTensor> tensors_;
  absl::Status status_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_TENSOR_SET_H_
