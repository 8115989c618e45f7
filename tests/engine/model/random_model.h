// A small model with seeded random weights of a size that makes every part matter: standard
// deviation 0.15, norm weights around 1, biases. Values are whole multiples of 1/256 below 1, so
// that fp32, bf16 and fp16 hold the same ones.
#ifndef RALLY_TESTS_ENGINE_MODEL_RANDOM_MODEL_H_
#define RALLY_TESTS_ENGINE_MODEL_RANDOM_MODEL_H_

#include "engine/model/model_source.h"

namespace rally {

ModelSource RandomModel(const ModelConfig& config, uint64_t seed);

}  // namespace rally

#endif  // RALLY_TESTS_ENGINE_MODEL_RANDOM_MODEL_H_
