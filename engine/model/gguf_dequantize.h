// The block formats of ggml to fp32: `count` elements, a multiple of the block's. Each value is
// computed in fp32 as the format defines it, with the roundings of ggml's reference code, so that
// the weights are bit for bit those that llama.cpp and the `gguf` package see.
#ifndef RALLY_ENGINE_MODEL_GGUF_DEQUANTIZE_H_
#define RALLY_ENGINE_MODEL_GGUF_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace rally {

// 32 elements a block: fp16 scale d [, fp16 minimum m] [, 32 fifth bits], 4-bit or 8-bit values.
void DequantizeQ4_0(const std::byte* blocks, int64_t count, float* out);  // d (q - 8)
void DequantizeQ4_1(const std::byte* blocks, int64_t count, float* out);  // d q + m
void DequantizeQ5_0(const std::byte* blocks, int64_t count, float* out);  // d (q - 16)
void DequantizeQ5_1(const std::byte* blocks, int64_t count, float* out);  // d q + m
void DequantizeQ8_0(const std::byte* blocks, int64_t count, float* out);  // d q

// 256 elements a block, in sub-blocks that scale the block's fp16 factors by small integers.
void DequantizeQ4_K(const std::byte* blocks, int64_t count, float* out);  // d s q - dmin m
void DequantizeQ5_K(const std::byte* blocks, int64_t count, float* out);  // d s q - dmin m
void DequantizeQ6_K(const std::byte* blocks, int64_t count, float* out);  // d s (q - 32)

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_DEQUANTIZE_H_
