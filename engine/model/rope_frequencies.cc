#include "engine/model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rally {

std::vector<float> RopeFrequencies(double theta, int32_t dim) {
  std::vector<float> inv_freq(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / dim));
  }
  return inv_freq;
}

void ScaleLlama3(const Llama3Scaling& scaling, std::vector<float>& inv_freq) {
  for (float& f : inv_freq) {
    const double turns = scaling.original_context * f / (2 * std::numbers::pi);
    // 1 where a pair turns at least high_freq_factor times in the original context.
    const double keep = std::clamp(
        (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
        0.0, 1.0);
    f = static_cast<float>(f * (keep + (1 - keep) / scaling.factor));
  }
}

void ScaleYarn(const YarnScaling& scaling, double theta, std::vector<float>& inv_freq) {
  const double dim = 2.0 * static_cast<double>(inv_freq.size());
  const auto pair_of = [&](double turns) {
    return dim * std::log(scaling.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] = static_cast<float>(inv_freq[i] * (1 - ramp + ramp / scaling.factor));
  }
}

double YarnMscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace rally
