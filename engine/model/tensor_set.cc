#include "engine/model/tensor_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rally {

absl::Status TensorSet::Add(StoredTensor tensor) {
  std::string name = tensor.name;
  if (!tensors_.emplace(name, std::move(tensor)).second) {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": tensor '", name, "' is stored twice"));
  }
  return absl::OkStatus();
}

std::unique_ptr<RowSource> TensorSet::Matrix(const std::string& name, int64_t rows, int64_t cols) {
  return Take(name, {rows, cols});
}

std::unique_ptr<RowSource> TensorSet::Vector(const std::string& name, int64_t n) {
  return Take(name, {n});
}

std::unique_ptr<RowSource> TensorSet::Take(const std::string& name,
                                           const std::vector<int64_t>& shape) {
  if (!status_.ok()) return nullptr;
  auto node = tensors_.extract(name);
  if (node.empty()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": tensor '", name, "' is missing"));
    return nullptr;
  }
  StoredTensor& tensor = node.mapped();
  if (tensor.shape != shape) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, ": tensor '", name, "' has shape [", absl::StrJoin(tensor.shape, ", "),
                     "], the configuration asks for [", absl::StrJoin(shape, ", "), "]"));
    return nullptr;
  }
  if (tensor.rows == nullptr) {
    status_ = absl::UnimplementedError(absl::StrCat(where_, ": tensor '", name, "' has type ",
                                                    tensor.type, ", which is not supported"));
  }
  return std::move(tensor.rows);
}

absl::Status TensorSet::CheckAllUsed() const {
  if (tensors_.empty()) return absl::OkStatus();
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (names.size() == kNamed) break;
    names.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where_, ": ", tensors_.size(), " tensors that the model does not know: ",
                   absl::StrJoin(names, ", "), tensors_.size() > kNamed ? ", ..." : ""));
}

}  // namespace rally
