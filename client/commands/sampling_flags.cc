#include "client/commands/sampling_flags.h"

namespace rally {

void SamplingFlags::AddTo(CLI::App& app) {
  const char* group = "Sampling (absent: the server's defaults)";
  app.add_option("-t,--temperature", temperature, "0: greedy")->group(group);
  app.add_option("--top-k", top_k, "0: off")->group(group);
  app.add_option("--top-p", top_p, "1: off")->group(group);
  app.add_option("--min-p", min_p, "0: off")->group(group);
  app.add_option("-s,--seed", seed, "Equal seeds give equal output")->group(group);
  app.add_option("-n,--max-tokens", max_tokens, "Output tokens at most")->group(group);
  app.add_option("--min-tokens", min_tokens, "Nothing stops the output before")->group(group);
  app.add_option("--stop", stop_strings, "Ends the output before this text; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--stop-token", stop_token_ids, "Ends the output with this token; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", ignore_eos, "The model's end tokens do not stop")->group(group);
  app.add_option("-m,--model", model, "Fail if the server serves another model")->group(group);
}

void SamplingFlags::ApplyTo(v1::GenerateRequest& request) const {
  if (temperature) request.set_temperature(*temperature);
  if (top_k) request.set_top_k(*top_k);
  if (top_p) request.set_top_p(*top_p);
  if (min_p) request.set_min_p(*min_p);
  if (seed) request.set_seed(*seed);
  if (max_tokens) request.set_max_tokens(*max_tokens);
  if (min_tokens) request.set_min_tokens(*min_tokens);
  for (const std::string& stop : stop_strings) request.add_stop_strings(stop);
  for (const int32_t id : stop_token_ids) request.add_stop_token_ids(id);
  request.set_ignore_eos(ignore_eos);
  request.set_model(model);
}

}  // namespace rally
