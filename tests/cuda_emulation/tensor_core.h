// The warp-wide matrix instructions, m16n8k16 products and ldmatrix (PTX ISA 9.0, 9.7.14).
#ifndef RALLY_TESTS_CUDA_EMULATION_TENSOR_CORE_H_
#define RALLY_TESTS_CUDA_EMULATION_TENSOR_CORE_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <source_location>

namespace rally::emulation {

// C += A B. T: __nv_bfloat16 or __half.
template <typename T>
void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  std::source_location where);

void LoadTiles(const void* row, bool transposed, uint32_t (&out)[4], std::source_location where);

}  // namespace rally::emulation

#endif  // RALLY_TESTS_CUDA_EMULATION_TENSOR_CORE_H_
