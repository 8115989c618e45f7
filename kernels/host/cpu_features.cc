#include "kernels/host/cpu_features.h"

namespace rally {

#ifdef __x86_64__
bool HostHasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool HostHasBf16() { return HostHasAvx512() && __builtin_cpu_supports("avx512bf16"); }
#else
bool HostHasAvx512() { return false; }
bool HostHasBf16() { return false; }
#endif

}  // namespace rally
