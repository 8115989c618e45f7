#include "engine/model/gguf_dequantize.h"

#include <cstring>

#include "engine/model/row_sources.h"

namespace rally {
namespace {

constexpr int kBlock = 32;        // elements of a simple block
constexpr int kSuperBlock = 256;  // elements of a K block
constexpr int kHalf = 2;          // bytes of an fp16

float LoadHalf(const std::byte* from) {
  float value;
  DecodeF16(from, 1, &value);
  return value;
}

int Byte(std::byte b) { return std::to_integer<int>(b); }
int Low4(std::byte b) { return Byte(b) & 0xf; }
int High4(std::byte b) { return Byte(b) >> 4; }
int Signed8(std::byte b) { return static_cast<int8_t>(Byte(b)); }

// The fifth bits of a block: bit i belongs to element i.
uint32_t LoadBits(const std::byte* from) {
  uint32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}
int FifthBit(uint32_t bits, int i) { return static_cast<int>(bits >> i & 1) << 4; }

// Byte j of a simple block's values holds element j in its low half and element j + 16 above.
int Nibble(const std::byte* values, int i) {
  return i < kBlock / 2 ? Low4(values[i]) : High4(values[i - kBlock / 2]);
}

// Scale and minimum of the eight sub-blocks of Q4_K and Q5_K: 6 bits each, packed in 12 bytes.
struct ScaleMin {
  int scale;
  int min;
};
ScaleMin UnpackScaleMin(const std::byte* packed, int j) {
  if (j < 4) return {Byte(packed[j]) & 63, Byte(packed[j + 4]) & 63};
  return {Low4(packed[j + 4]) | Byte(packed[j - 4]) >> 6 << 4,
          High4(packed[j + 4]) | Byte(packed[j]) >> 6 << 4};
}

}  // namespace

void DequantizeQ4_0(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = kHalf + 16;
  for (; count > 0; count -= kBlock, blocks += kBytes, out += kBlock) {
    const float d = LoadHalf(blocks);
    const std::byte* values = blocks + kHalf;
    for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(Nibble(values, i) - 8);
  }
}

void DequantizeQ4_1(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = 2 * kHalf + 16;
  for (; count > 0; count -= kBlock, blocks += kBytes, out += kBlock) {
    const float d = LoadHalf(blocks), m = LoadHalf(blocks + kHalf);
    const std::byte* values = blocks + 2 * kHalf;
    for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(Nibble(values, i)) + m;
  }
}

void DequantizeQ5_0(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = kHalf + 4 + 16;
  for (; count > 0; count -= kBlock, blocks += kBytes, out += kBlock) {
    const float d = LoadHalf(blocks);
    const uint32_t bits = LoadBits(blocks + kHalf);
    const std::byte* values = blocks + kHalf + 4;
    for (int i = 0; i < kBlock; ++i) {
      out[i] = d * static_cast<float>((Nibble(values, i) | FifthBit(bits, i)) - 16);
    }
  }
}

void DequantizeQ5_1(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = 2 * kHalf + 4 + 16;
  for (; count > 0; count -= kBlock, blocks += kBytes, out += kBlock) {
    const float d = LoadHalf(blocks), m = LoadHalf(blocks + kHalf);
    const uint32_t bits = LoadBits(blocks + 2 * kHalf);
    const std::byte* values = blocks + 2 * kHalf + 4;
    for (int i = 0; i < kBlock; ++i) {
      out[i] = d * static_cast<float>(Nibble(values, i) | FifthBit(bits, i)) + m;
    }
  }
}

void DequantizeQ8_0(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = kHalf + kBlock;
  for (; count > 0; count -= kBlock, blocks += kBytes, out += kBlock) {
    const float d = LoadHalf(blocks);
    for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(Signed8(blocks[kHalf + i]));
  }
}

void DequantizeQ4_K(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = 2 * kHalf + 12 + kSuperBlock / 2;
  for (; count > 0; count -= kSuperBlock, blocks += kBytes) {
    const float d = LoadHalf(blocks), dmin = LoadHalf(blocks + kHalf);
    const std::byte* packed = blocks + 2 * kHalf;
    for (int j = 0; j < 8; ++j) {
      // 32 bytes hold two sub-blocks: the even one in the low halves, the odd one above.
      const std::byte* values = packed + 12 + j / 2 * 32;
      const ScaleMin sub = UnpackScaleMin(packed, j);
      const float scale = d * static_cast<float>(sub.scale);
      const float min = dmin * static_cast<float>(sub.min);
      for (int i = 0; i < 32; ++i) {
        const int q = j % 2 == 0 ? Low4(values[i]) : High4(values[i]);
        *out++ = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void DequantizeQ5_K(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = 2 * kHalf + 12 + kSuperBlock / 8 + kSuperBlock / 2;
  for (; count > 0; count -= kSuperBlock, blocks += kBytes) {
    const float d = LoadHalf(blocks), dmin = LoadHalf(blocks + kHalf);
    const std::byte* packed = blocks + 2 * kHalf;
    const std::byte* fifth = packed + 12;  // bit j of byte i belongs to element i of sub-block j
    for (int j = 0; j < 8; ++j) {
      const std::byte* values = fifth + 32 + j / 2 * 32;
      const ScaleMin sub = UnpackScaleMin(packed, j);
      const float scale = d * static_cast<float>(sub.scale);
      const float min = dmin * static_cast<float>(sub.min);
      for (int i = 0; i < 32; ++i) {
        const int low = j % 2 == 0 ? Low4(values[i]) : High4(values[i]);
        const int q = low | (Byte(fifth[i]) >> j & 1) << 4;
        *out++ = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void DequantizeQ6_K(const std::byte* blocks, int64_t count, float* out) {
  constexpr int kBytes = kSuperBlock / 2 + kSuperBlock / 4 + kSuperBlock / 16 + kHalf;
  for (; count > 0; count -= kSuperBlock, blocks += kBytes) {
    const std::byte* low = blocks;                     // 4 low bits
    const std::byte* high = low + kSuperBlock / 2;     // 2 high bits
    const std::byte* scales = high + kSuperBlock / 4;  // int8, 16 elements each
    const float d = LoadHalf(scales + kSuperBlock / 16);
    for (int i = 0; i < kSuperBlock; ++i) {
      // Each half of 128 elements is four runs of 32: runs 0 and 1 in the low, 2 and 3 in the high
      // halves of 64 bytes; the two high bits of run r are bits 2r and 2r + 1 of 32 bytes.
      const int half = i / 128, run = i % 128 / 32, l = i % 32;
      const std::byte four = low[half * 64 + run % 2 * 32 + l];
      const int two = Byte(high[half * 32 + l]) >> (2 * run) & 3;
      const int q = (run < 2 ? Low4(four) : High4(four)) | two << 4;
      *out++ = d * static_cast<float>(Signed8(scales[i / 16])) * static_cast<float>(q - 32);
    }
  }
}

}  // namespace rally
