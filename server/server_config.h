// The server's configuration: flag > environment (RALLY_*) > file > default.
#ifndef RALLY_SERVER_SERVER_CONFIG_H_
#define RALLY_SERVER_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine_config.h"

namespace rally {

struct ServerConfig {
  // What is served. The loader gives a meaning to the words.
  std::string model;       // file or directory
  std::string tokenizer;   // file or directory; empty: the model's own
  std::string model_name;  // empty: from the path
  std::string load_format = "auto";
  std::string dtype = "auto";
  std::string devices = "auto";
  EngineConfig engine;

  std::string listen = "127.0.0.1:50051";
  std::string metrics_listen = "127.0.0.1:9464";  // "off": no metrics
  int64_t max_inflight_requests = 1024;
  int64_t max_prompt_bytes = int64_t{1} << 20;
  int tokenize_threads = 1;
  absl::Duration slow_reader_timeout = absl::Seconds(30);
  bool log_requests = true;

  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration max_connection_age_grace = absl::Minutes(10);

  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(30);

  std::string resolved;  // every setting as it holds, in the form of a configuration file
};

// What a program does after its arguments were read.
struct ConfigResult {
  enum class Kind { kRun, kHelp, kError } kind = Kind::kRun;
  ServerConfig config;
  std::string text;  // kHelp: the help; kError: what is wrong, with the flag's name
};

// `args` without the program's name; `environment` as in environ, "NAME=value" each.
ConfigResult ParseServerConfig(const std::vector<std::string>& args,
                               const std::vector<std::string>& environment);

// The engine names its limits as its configuration does (max_rows); users know flags (--max-rows).
std::string WithFlagNames(std::string_view message);

}  // namespace rally

#endif  // RALLY_SERVER_SERVER_CONFIG_H_
