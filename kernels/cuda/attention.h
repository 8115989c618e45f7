// The two ways of attention on CUDA; attention.cu says which rows go where.
#ifndef RALLY_KERNELS_CUDA_ATTENTION_H_
#define RALLY_KERNELS_CUDA_ATTENTION_H_

#include "kernels/ops.h"

namespace rally {

// Rows of one token.
void EnqueueDecodeAttention(Stream& stream, const AttentionArgs& a);
// Rows of more tokens: any type and head size; and on tensor cores, which answers `false` where it
// does not take the arguments and has enqueued nothing.
void EnqueueChunkAttention(Stream& stream, const AttentionArgs& a);
bool EnqueueTiledChunkAttention(Stream& stream, const AttentionArgs& a);

}  // namespace rally

#endif  // RALLY_KERNELS_CUDA_ATTENTION_H_
