// cuBLASLt sees matrices column-major: the row-major out (m, n) is its D (n, m) = A^T B, with
// A = W as (k, n) and B = x as (k, m).
//
// Sums are fp32 throughout: no TF32, and partial sums of a split depth are added in fp32 in a fixed
// order. An algorithm is chosen by cuBLASLt's heuristic for a row count of a ladder and used for
// all counts up to it, so that prompts of any length find one; the heuristic launches nothing, so
// it may run while a graph is captured.
#include "kernels/cuda/lt_matmul.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_weight.h"

namespace rally {
namespace {

cudaDataType_t TypeOf(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

struct LtRequest {
  CudaStream& stream;
  const CublasLt& lt;
  const MatmulArgs& args;
  const CudaWeight& w;
  const void* bias;
  const CudaScratch& workspace;
};

// The descriptors of one product. `status` is that of the first call that failed.
class LtProblem {
 public:
  LtProblem(const LtRequest& request, int32_t rows) : lt_(request.lt) {
    const CublasLt& lt = lt_;
    const MatmulArgs& args = request.args;
    const CudaWeight& w = request.w;
    const auto n = static_cast<uint64_t>(w.n);
    const auto m = static_cast<uint64_t>(rows);
    const auto k = static_cast<uint64_t>(w.k);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Note(lt.MatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (op == nullptr) return;
    Note(
        lt.MatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    if (request.bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      Note(
          lt.MatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
      Note(lt.MatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &request.bias,
                                     sizeof request.bias));
    }
    Note(lt.MatrixLayoutCreate(&a, TypeOf(w.dtype), k, n, w.stride));
    Note(lt.MatrixLayoutCreate(&b, TypeOf(w.dtype), k, m, args.x.stride));
    Note(lt.MatrixLayoutCreate(&d, TypeOf(args.out.dtype), n, m, args.out.stride));
  }
  LtProblem(const LtProblem&) = delete;
  LtProblem& operator=(const LtProblem&) = delete;
  ~LtProblem() {
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) {
      if (layout != nullptr) lt_.MatrixLayoutDestroy(layout);
    }
    if (op != nullptr) lt_.MatmulDescDestroy(op);
  }

  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

 private:
  void Note(cublasStatus_t result) {
    if (status == CUBLAS_STATUS_SUCCESS) status = result;
  }

  const CublasLt& lt_;
};

uint32_t AlignmentOf(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

cublasStatus_t SetPreference(const LtRequest& request, cublasLtMatmulPreference_t preference) {
  const uint64_t workspace = request.workspace.bytes;
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const uint32_t align_a = AlignmentOf(request.w.buffer->data());
  const uint32_t align_b = AlignmentOf(request.args.x.data);
  const uint32_t align_d = AlignmentOf(request.args.out.data);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = request.lt.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_d);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_d);
  return status;
}

cublasStatus_t Choose(const LtRequest& request, int32_t rows, cublasLtMatmulAlgo_t* algorithm) {
  const CublasLt& lt = request.lt;
  const LtProblem problem(request, rows);
  if (problem.status != CUBLAS_STATUS_SUCCESS) return problem.status;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = lt.MatmulPreferenceCreate(&preference);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  status = SetPreference(request, preference);
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lt.MatmulAlgoGetHeuristic(request.stream.cublas(), problem.op, problem.a, problem.b,
                                       problem.d, problem.d, preference, 1, &result, &found);
  }
  lt.MatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS && found == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
  *algorithm = result.algo;
  return status;
}

// 16 24 32 48 64 96 ...: the first that is at least `rows`.
int32_t LadderRows(int32_t rows) {
  int64_t step = 16;
  while (step < rows && step / 2 * 3 < rows) step *= 2;
  return static_cast<int32_t>(step >= rows ? step : step / 2 * 3);
}

cublasStatus_t ChoiceFor(const LtRequest& request, cublasLtMatmulAlgo_t* algorithm) {
  const int32_t rows = LadderRows(request.args.max_rows);
  const DType out_dtype = request.args.out.dtype;
  const bool bias = request.bias != nullptr;
  for (const LtChoice& choice : request.w.choices) {
    if (choice.rows != rows || choice.out_dtype != out_dtype || choice.bias != bias) continue;
    *algorithm = choice.algorithm;
    return CUBLAS_STATUS_SUCCESS;
  }
  const cublasStatus_t status = Choose(request, rows, algorithm);
  if (status == CUBLAS_STATUS_SUCCESS) {
    request.w.choices.push_back({rows, out_dtype, bias, *algorithm});
  }
  return status;
}

cublasStatus_t Multiply(const LtRequest& request, const cublasLtMatmulAlgo_t& algorithm) {
  const MatmulArgs& args = request.args;
  const LtProblem problem(request, args.max_rows);
  if (problem.status != CUBLAS_STATUS_SUCCESS) return problem.status;
  const float alpha = 1;
  const float beta = args.epilogue == Epilogue::kAccumulate ? 1 : 0;
  return request.lt.Matmul(request.stream.cublas(), problem.op, &alpha, request.w.buffer->data(),
                           problem.a, args.x.data, problem.b, &beta, args.out.data, problem.d,
                           args.out.data, problem.d, &algorithm, request.workspace.data,
                           request.workspace.bytes, request.stream.handle());
}

}  // namespace

void LtMatmul(CudaStream& stream, const MatmulArgs& args, const void* bias,
              const CudaScratch& workspace) {
  const LtRequest request = {
      stream, stream.cublas_lt(), args, static_cast<const CudaWeight&>(*args.w), bias, workspace};
  cublasLtMatmulAlgo_t algorithm = {};
  cublasStatus_t status = ChoiceFor(request, &algorithm);
  if (status == CUBLAS_STATUS_SUCCESS) status = Multiply(request, algorithm);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    // The ladder's algorithm does not fit these very rows.
    status = Choose(request, args.max_rows, &algorithm);
    if (status == CUBLAS_STATUS_SUCCESS) status = Multiply(request, algorithm);
  }
  if (status == CUBLAS_STATUS_SUCCESS) return;
  stream.Fail(absl::InternalError(absl::StrCat(
      "matmul of ", args.max_rows, " x ", args.w->k, " by ", args.w->n, " in ",
      std::string(DTypeName(args.w->dtype)), ": ", stream.cublas_lt().GetStatusString(status))));
}

}  // namespace rally
