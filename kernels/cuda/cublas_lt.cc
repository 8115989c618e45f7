#include "kernels/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rally {
namespace {

// The ABI of the headers that this file was compiled with.
std::string LibraryName() { return absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR); }

// Where the loader looks, else where the build found the toolkit: its folder is often not in the
// loader's cache.
void* OpenLibrary() {
  void* library = dlopen(LibraryName().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string built_with = absl::StrCat(RALLY_CUDA_LIBRARY_DIR, "/", LibraryName());
  return dlopen(built_with.c_str(), RTLD_NOW | RTLD_LOCAL);
}

absl::StatusOr<CublasLt> Load() {
  void* const library = OpenLibrary();
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("cuBLASLt was not found: ", LibraryName()));
  }
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  CublasLt lt;
  find("cublasLtCreate", lt.Create);
  find("cublasLtDestroy", lt.Destroy);
  find("cublasLtGetStatusString", lt.GetStatusString);
  find("cublasLtMatmul", lt.Matmul);
  find("cublasLtMatmulAlgoGetHeuristic", lt.MatmulAlgoGetHeuristic);
  find("cublasLtMatmulDescCreate", lt.MatmulDescCreate);
  find("cublasLtMatmulDescDestroy", lt.MatmulDescDestroy);
  find("cublasLtMatmulDescSetAttribute", lt.MatmulDescSetAttribute);
  find("cublasLtMatmulPreferenceCreate", lt.MatmulPreferenceCreate);
  find("cublasLtMatmulPreferenceDestroy", lt.MatmulPreferenceDestroy);
  find("cublasLtMatmulPreferenceSetAttribute", lt.MatmulPreferenceSetAttribute);
  find("cublasLtMatrixLayoutCreate", lt.MatrixLayoutCreate);
  find("cublasLtMatrixLayoutDestroy", lt.MatrixLayoutDestroy);
  if (missing != nullptr) {
    return absl::NotFoundError(absl::StrCat("cuBLASLt: ", LibraryName(), " lacks ", missing));
  }
  return lt;
}

}  // namespace

absl::StatusOr<const CublasLt*> LoadCublasLt() {
  static const auto* const loaded = new absl::StatusOr<CublasLt>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace rally
