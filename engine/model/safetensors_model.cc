#include "engine/model/safetensors_model.h"

#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/checked_json.h"
#include "engine/base/status_macros.h"
#include "engine/model/row_sources.h"
#include "engine/model/safetensors.h"

namespace rally {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = 64 << 20;

DecodeFn FindDecode(absl::string_view dtype) {
  if (dtype == "F32") return DecodeF32;
  if (dtype == "F16") return DecodeF16;
  if (dtype == "BF16") return DecodeBF16;
  return nullptr;
}

StoredTensor ToStored(const std::shared_ptr<const InputFile>& file,
                      const SafetensorsTensor& tensor) {
  StoredTensor stored = {tensor.name, tensor.dtype, tensor.shape, nullptr};
  const DecodeFn decode = FindDecode(tensor.dtype);
  const size_t rank = tensor.shape.size();
  if (decode == nullptr || rank < 1 || rank > 2) return stored;
  const int64_t rows = rank == 2 ? tensor.shape[0] : 1;
  const auto row_bytes = static_cast<int64_t>(rows > 0 ? tensor.bytes / rows : 0);
  stored.rows = FileRows({.file = file,
                          .name = tensor.name,
                          .offset = tensor.offset,
                          .rows = rows,
                          .cols = tensor.shape.back(),
                          .row_bytes = row_bytes,
                          .decode = decode});
  return stored;
}

// The path of a shard, checked to stay where the model is.
absl::StatusOr<std::string> ShardPath(const fs::path& directory, const std::string& shard) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory.string(), ": weight file '", shard, "' ", why));
  };
  if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
      shard.find('\0') != std::string::npos) {
    return refuse("is not a plain file name");
  }
  std::error_code error;
  const fs::path path = directory / shard;
  if (!fs::exists(path, error)) return absl::NotFoundError(refuse("is missing").message());
  const fs::path home = fs::canonical(directory, error);
  const fs::path folder = fs::canonical(path, error).parent_path();
  if (error) return refuse(error.message());
  const fs::path blobs = home.parent_path().parent_path() / "blobs";  // of snapshots/<commit>
  if (folder != home && folder != blobs) return refuse("is a link out of the model's directory");
  return path.string();
}

absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  RALLY_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxIndexBytes));
  RALLY_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text, path));
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map is missing"));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map of tensor '", tensor, "' is not a file name"));
    }
    shards[tensor] = shard.get<std::string>();
  }
  return shards;
}

absl::Status AddFile(const std::string& path, TensorSet& set, std::set<std::string>* names) {
  RALLY_ASSIGN_OR_RETURN(const SafetensorsFile opened, OpenSafetensors(path));
  for (const SafetensorsTensor& tensor : opened.tensors) {
    if (names != nullptr) names->insert(tensor.name);
    RALLY_RETURN_IF_ERROR(set.Add(ToStored(opened.file, tensor)));
  }
  return absl::OkStatus();
}

absl::Status AddShards(const fs::path& directory, const std::string& index, TensorSet& set) {
  RALLY_ASSIGN_OR_RETURN(const auto shard_of, ReadIndex(index));
  std::map<std::string, std::set<std::string>> stored;  // by shard
  for (const auto& [tensor, shard] : shard_of) stored[shard];
  for (auto& [shard, names] : stored) {
    RALLY_ASSIGN_OR_RETURN(const std::string path, ShardPath(directory, shard));
    RALLY_RETURN_IF_ERROR(AddFile(path, set, &names));
    for (const std::string& name : names) {
      const auto it = shard_of.find(name);
      if (it == shard_of.end() || it->second != shard) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": holds tensor '", name,
                                                       "', which the index does not place there"));
      }
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!stored[shard].contains(tensor)) {
      return absl::InvalidArgumentError(absl::StrCat((directory / shard).string(), ": tensor '",
                                                     tensor, "' of the index is missing"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorSet> OpenSafetensorsModel(const std::string& directory) {
  TensorSet set(directory);
  const fs::path home(directory);
  const fs::path index = home / "model.safetensors.index.json";
  std::error_code error;
  if (fs::exists(index, error)) {
    RALLY_RETURN_IF_ERROR(AddShards(home, index.string(), set));
  } else {
    RALLY_ASSIGN_OR_RETURN(const std::string path, ShardPath(home, "model.safetensors"));
    RALLY_RETURN_IF_ERROR(AddFile(path, set, nullptr));
  }
  return set;
}

}  // namespace rally
