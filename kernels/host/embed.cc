#include "kernels/host/host_ops.h"
#include "kernels/host/parallel.h"
#include "kernels/host/simd.h"

namespace rally {
namespace {

template <typename T>
void CopyRow(const Matrix& table, int64_t row, float* out) {
  const T* in = table.row<T>(row);
  for (int32_t c = 0; c < table.cols; ++c) out[c] = ToFloat(in[c]);
}

template <typename T>
void AddRow(const Matrix& table, int64_t row, float* out) {
  const T* in = table.row<T>(row);
  for (int32_t c = 0; c < table.cols; ++c) out[c] += ToFloat(in[c]);
}

}  // namespace

void RunEmbed(const EmbedArgs& a) {
  ParallelFor(*a.rows, int64_t{*a.rows} * a.out.cols, [&](int64_t t) {
    float* out = a.out.row<float>(t);
    WithType(a.table.dtype,
             [&](auto type) { CopyRow<decltype(type)>(a.table, a.tokens[t].id, out); });
    if (a.positions.data == nullptr) return;
    WithType(a.positions.dtype,
             [&](auto type) { AddRow<decltype(type)>(a.positions, a.tokens[t].position, out); });
  });
}

}  // namespace rally
