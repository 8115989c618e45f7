// The ops of the host device.
#ifndef RALLY_KERNELS_HOST_OP_TABLE_H_
#define RALLY_KERNELS_HOST_OP_TABLE_H_

#include "kernels/ops.h"

namespace rally {

const OpTable& HostOps();

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_OP_TABLE_H_
