// The rotation speeds of RoPE and the ways to stretch them for longer contexts, as transformers
// defines them (modeling_rope_utils.py).
#ifndef RALLY_ENGINE_MODEL_ROPE_FREQUENCIES_H_
#define RALLY_ENGINE_MODEL_ROPE_FREQUENCIES_H_

#include <cstdint>
#include <vector>

namespace rally {

// theta^(-2i / dim) for i in [0, dim / 2).
std::vector<float> RopeFrequencies(double theta, int32_t dim);

// Llama 3.1: fast pairs stay, slow ones are divided by `factor`, those between are blended.
struct Llama3Scaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
};
void ScaleLlama3(const Llama3Scaling& scaling, std::vector<float>& inv_freq);

// YaRN (https://arxiv.org/abs/2309.00071): a linear ramp from unscaled to divided by `factor`
// between the pairs that turn beta_fast and beta_slow times in the original context.
struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_context = 0;
  bool truncate = true;  // the ramp's ends are whole pairs
};
void ScaleYarn(const YarnScaling& scaling, double theta, std::vector<float>& inv_freq);

// 0.1 mscale ln(factor) + 1: YaRN's attention factor.
double YarnMscale(double factor, double mscale = 1);

}  // namespace rally

#endif  // RALLY_ENGINE_MODEL_ROPE_FREQUENCIES_H_
