// The element types of GGUF tensors (ggml) and how a row of each becomes fp32.
#ifndef RALLY_ENGINE_MODEL_GGUF_TYPES_H_
#define RALLY_ENGINE_MODEL_GGUF_TYPES_H_

#include <cstdint>

#include "engine/model/row_sources.h"

namespace rally {

// Elements are stored in blocks; a row is a whole number of blocks.
struct GgufType {
  uint32_t id = 0;
  const char* name = nullptr;
  int32_t block_elements = 0;
  int32_t block_bytes = 0;
  DecodeFn decode = nullptr;  // null: known, but not supported as a weight
};

// Null for an id that the format does not define.
const GgufType* FindGgufType(uint32_t id);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_GGUF_TYPES_H_
