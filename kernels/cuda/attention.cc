// Causal attention over the paged cache. Decoding rows are few queries against a long past, limited
// by reading K and V; chunks of prompts are many queries that share each key, limited by products.
// So each kind has its kernel, and a step that may hold both launches both: each skips the rows of
// the other.
#include "kernels/cuda/attention.h"

#include "kernels/cuda/cuda_ops.h"

namespace rally {

void EnqueueAttention(Stream& stream, const AttentionArgs& a) {
  EnqueueDecodeAttention(stream, a);
  if (a.shape.decode_only != 0) return;
  if (!EnqueueTiledChunkAttention(stream, a)) EnqueueChunkAttention(stream, a);
}

}  // namespace rally
