// Durations on the command line: 300ms, 2m, inf.
#ifndef RALLY_CLIENT_COMMANDS_DURATION_OPTION_H_
#define RALLY_CLIENT_COMMANDS_DURATION_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/time/time.h"

namespace rally {

// Adds an option whose text is always a positive duration; DurationOf gives its value.
inline CLI::Option* AddDurationOption(CLI::App& app, const std::string& name, std::string& text,
                                      const std::string& description) {
  const auto check = [](const std::string& value) -> std::string {
    absl::Duration duration;
    if (absl::ParseDuration(value, &duration) && duration > absl::ZeroDuration()) return "";
    return "\"" + value + "\" is not a positive duration such as 300ms, 2m or inf";
  };
  return app.add_option(name, text, description)
      ->check(CLI::Validator(check, "DURATION"))
      ->capture_default_str();
}

inline absl::Duration DurationOf(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

}  // namespace rally

#endif  // RALLY_CLIENT_COMMANDS_DURATION_OPTION_H_
