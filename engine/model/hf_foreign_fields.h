// Fields of config.json that belong to other models and would change what is computed.
#ifndef RALLY_ENGINE_MODEL_HF_FOREIGN_FIELDS_H_
#define RALLY_ENGINE_MODEL_HF_FOREIGN_FIELDS_H_

#include "engine/model/field_reader.h"

namespace rally {

// Marks `fields` with the first such field whose value is not its neutral one.
void RefuseForeignFields(FieldReader& fields);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_HF_FOREIGN_FIELDS_H_
