// The rotary position fields of config.json, in the places that they have had over the years.
#ifndef RALLY_ENGINE_MODEL_HF_ROPE_H_
#define RALLY_ENGINE_MODEL_HF_ROPE_H_

#include "engine/model/field_reader.h"
#include "engine/model/model_config.h"

namespace rally {

// Fills rotary_dim, inv_freq and rope_scale; head_dim and context_length must be there. The scaling
// is in rope_scaling or rope_parameters, the base also at top level. Kinds: default, linear,
// llama3, yarn.
void ReadRope(FieldReader& fields, ModelConfig& config);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_HF_ROPE_H_
