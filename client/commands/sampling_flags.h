// The flags of a request beside its prompt, for every command that generates.
#ifndef RALLY_CLIENT_COMMANDS_SAMPLING_FLAGS_H_
#define RALLY_CLIENT_COMMANDS_SAMPLING_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rally/v1/generation.pb.h"

namespace rally {

// What is absent is left to the server.
struct SamplingFlags {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> min_tokens;
  std::vector<std::string> stop_strings;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::string model;

  void AddTo(CLI::App& app);
  void ApplyTo(v1::GenerateRequest& request) const;
};

}  // namespace rally

#endif  // RALLY_CLIENT_COMMANDS_SAMPLING_FLAGS_H_
