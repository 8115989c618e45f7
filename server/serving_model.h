// A model ready to serve: tokenizer, configuration and one engine a device rank.
#ifndef RALLY_SERVER_SERVING_MODEL_H_
#define RALLY_SERVER_SERVING_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model/model_config.h"
#include "engine/text/tokenizer.h"
#include "server/server_config.h"

namespace rally {

struct ServingModel {
  std::string name;
  std::shared_ptr<const Tokenizer> tokenizer;  // outlives the engines: they use its vocabulary
  ModelConfig config;
  std::vector<std::unique_ptr<Engine>> engines;  // at least one; each has run a step
};

// Loads what the configuration names onto its devices.
absl::StatusOr<ServingModel> LoadServingModel(const ServerConfig& config);

}  // namespace rally

#endif  // RALLY_SERVER_SERVING_MODEL_H_
