// What this machine can do, measured in the same run as what is compared with it.
#ifndef RALLY_TESTS_BENCH_MACHINE_LIMITS_H_
#define RALLY_TESTS_BENCH_MACHINE_LIMITS_H_

#include <functional>
#include <vector>

#include "engine/model/model_config.h"
#include "kernels/device/device.h"
#include "kernels/tensor.h"

namespace rally {

// Runs `measure` on the compute thread of a host device and returns what it returns: OpenMP has one
// master there, as the engine's steps do. A second master would slow both down: libgomp stops
// spinning between parallel loops once it manages more threads than there are cores.
double OnDeviceThread(Device& device, Stream& stream, const std::function<double()>& measure);

double SecondsOf(const std::function<void()>& run);
double Median(std::vector<double> values);

// Bytes a second of reading 1 GiB once with the OpenMP threads of the caller; the best of five.
double ReadBandwidth();

// Parameters that a decode step reads, in elements: all matrices and the head.
double StepParameters(const ModelConfig& config);

// Seconds that oneDNN itself takes for the matrix products of prefilling `tokens` tokens (layers
// only: one head row is nothing), each layer with weights of its own in the layout that oneDNN
// chooses. The best of three.
double OneDnnPrefillSeconds(const ModelConfig& config, DType dtype, int tokens);

}  // namespace rally

#endif  // RALLY_TESTS_BENCH_MACHINE_LIMITS_H_
