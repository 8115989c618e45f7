#include "engine/model/gguf_types.h"

#include <algorithm>
#include <array>

#include "engine/model/gguf_dequantize.h"

namespace rally {
namespace {

constexpr auto kTypes = std::to_array<GgufType>({
    {0, "F32", 1, 4, DecodeF32},
    {1, "F16", 1, 2, DecodeF16},
    {2, "Q4_0", 32, 18, DequantizeQ4_0},
    {3, "Q4_1", 32, 20, DequantizeQ4_1},
    {6, "Q5_0", 32, 22, DequantizeQ5_0},
    {7, "Q5_1", 32, 24, DequantizeQ5_1},
    {8, "Q8_0", 32, 34, DequantizeQ8_0},
    {9, "Q8_1", 32, 40},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144, DequantizeQ4_K},
    {13, "Q5_K", 256, 176, DequantizeQ5_K},
    {14, "Q6_K", 256, 210, DequantizeQ6_K},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, DecodeBF16},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
});

}  // namespace

const GgufType* FindGgufType(uint32_t id) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(),
                               [id](const GgufType& type) { return type.id == id; });
  return it == kTypes.end() ? nullptr : &*it;
}

}  // namespace rally
