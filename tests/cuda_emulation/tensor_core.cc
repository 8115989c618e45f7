#include "tests/cuda_emulation/tensor_core.h"

#include <cstring>

#include "tests/cuda_emulation/failure.h"
#include "tests/cuda_emulation/meeting.h"

namespace rally::emulation {
namespace {

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kRows = 16;
constexpr int kCols = 8;
constexpr int kDepth = 16;
constexpr int kTileRows = 8;  // of ldmatrix
constexpr size_t kTileRowBytes = 16;

struct MultiplyOperand {
  float (&c)[4];
  const uint32_t (&a)[4];
  const uint32_t (&b)[2];
};

float ValueOf(__nv_bfloat16 x) { return __bfloat162float(x); }
float ValueOf(__half x) { return __half2float(x); }

// The half of a register that element i of a fragment lies in.
template <typename T>
float Element(const uint32_t* fragment, int i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(fragment) + i * sizeof(T), sizeof(T));
  return ValueOf(value);
}

// Element i of a fragment, as the PTX ISA has them under "Matrix Fragments for mma.m16n8k16 with
// floating point type": `group` is lane / 4, `member` lane % 4.
struct Place {
  int row;
  int col;
};
Place PlaceInA(int group, int member, int i) {
  const bool upper = i < 2 || (i >= 4 && i < 6);
  return {upper ? group : group + 8, 2 * member + (i & 1) + (i < 4 ? 0 : 8)};
}
Place PlaceInB(int group, int member, int i) {
  return {2 * member + (i & 1) + (i < 2 ? 0 : 8), group};
}
Place PlaceInC(int group, int member, int i) {
  return {i < 2 ? group : group + 8, 2 * member + (i & 1)};
}

// Sums in double precision: the GPU's own order of summation is not known.
template <typename T>
void Multiply(WarpOperands operands) {
  float a[kRows][kDepth];
  float b[kDepth][kCols];
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const auto& operand = *static_cast<const MultiplyOperand*>(operands[lane]);
    for (int i = 0; i < 8; ++i) {
      const Place place = PlaceInA(lane / 4, lane % 4, i);
      a[place.row][place.col] = Element<T>(operand.a, i);
    }
    for (int i = 0; i < 4; ++i) {
      const Place place = PlaceInB(lane / 4, lane % 4, i);
      b[place.row][place.col] = Element<T>(operand.b, i);
    }
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const auto& operand = *static_cast<const MultiplyOperand*>(operands[lane]);
    for (int i = 0; i < 4; ++i) {
      const Place place = PlaceInC(lane / 4, lane % 4, i);
      double sum = operand.c[i];
      for (int k = 0; k < kDepth; ++k) sum += double{a[place.row][k]} * double{b[k][place.col]};
      operand.c[i] = static_cast<float>(sum);
    }
  }
}

struct LoadOperand {
  const void* row;
  uint32_t (&out)[4];
  bool transposed;
};

void Load(WarpOperands operands) {
  for (int tile = 0; tile < 4; ++tile) {
    uint16_t values[kTileRows][kTileRows];
    for (int row = 0; row < kTileRows; ++row) {
      const auto& source = *static_cast<const LoadOperand*>(operands[tile * kTileRows + row]);
      std::memcpy(values[row], source.row, kTileRowBytes);
    }
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const auto& operand = *static_cast<const LoadOperand*>(operands[lane]);
      const int line = lane / 4;  // row, or column where transposed
      const int first = 2 * (lane % 4);
      const uint16_t low = operand.transposed ? values[first][line] : values[line][first];
      const uint16_t high = operand.transposed ? values[first + 1][line] : values[line][first + 1];
      operand.out[tile] = uint32_t{high} << 16 | low;
    }
  }
}

void CheckWholeWarp(const char* op, std::source_location where) {
  if (CurrentThread().warp->living != kAllLanes) {
    Fail(std::string(op) + " in a warp of which lanes have ended", where);
  }
}

}  // namespace

template <typename T>
void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  std::source_location where) {
  CheckWholeWarp("MultiplyTile", where);
  MultiplyOperand operand{c, a, b};
  MeetWarp(kAllLanes, {"MultiplyTile", where}, &operand, &Multiply<T>);
}
template void MultiplyTile<__nv_bfloat16>(float (&)[4], const uint32_t (&)[4],
                                          const uint32_t (&)[2], std::source_location);
template void MultiplyTile<__half>(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2],
                                   std::source_location);

void LoadTiles(const void* row, bool transposed, uint32_t (&out)[4], std::source_location where) {
  CheckWholeWarp("LoadTiles", where);
  if (reinterpret_cast<uintptr_t>(row) % kTileRowBytes != 0) {
    Fail("LoadTiles from an address that is not aligned to 16", where);
  }
  if (!CurrentBlock().shared.Holds(row, kTileRowBytes) && !IsStatic(row)) {
    Fail("LoadTiles from what is not the block's shared memory", where);
  }
  LoadOperand operand{row, out, transposed};
  MeetWarp(kAllLanes, {"LoadTiles", where}, &operand, &Load);
}

}  // namespace rally::emulation
