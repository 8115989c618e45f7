// The cuBLASLt functions that the matmul uses, found at run time: the library weighs 540 MB and
// has no static form, and rally-server must start for the host device where CUDA is not installed.
#ifndef RALLY_KERNELS_CUDA_CUBLAS_LT_H_
#define RALLY_KERNELS_CUDA_CUBLAS_LT_H_

#include <cublasLt.h>

#include "absl/status/statusor.h"

namespace rally {

// Call as lt.Matmul(...): each member is cublasLt<member>.
struct CublasLt {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
};

// Loads the library at the first call and keeps it. NOT_FOUND names it. Any thread.
absl::StatusOr<const CublasLt*> LoadCublasLt();

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_CUBLAS_LT_H_
