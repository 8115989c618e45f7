// What this machine's CPU offers to the host ops.
#ifndef RALLY_KERNELS_HOST_CPU_FEATURES_H_
#define RALLY_KERNELS_HOST_CPU_FEATURES_H_

namespace rally {

bool HostHasAvx512();
// bf16 products in hardware (AVX512-BF16): where false, fp32 is the faster choice and the only one.
bool HostHasBf16();

}  // namespace rally

#endif  // RALLY_KERNELS_HOST_CPU_FEATURES_H_
