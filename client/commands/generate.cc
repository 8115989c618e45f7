// rally generate: a prompt in, the continuation on stdout as it is made, figures on stderr.
#include <google/protobuf/util/json_util.h>

#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/commands/command.h"
#include "client/commands/duration_option.h"
#include "client/commands/error_report.h"
#include "client/commands/sampling_flags.h"
#include "client/inference_client.h"
#include "client/interrupt.h"

namespace rally {
namespace {

struct GenerateFlags {
  SamplingFlags sampling;
  std::vector<std::string> words;
  std::vector<int32_t> token_ids;
  std::string request_id;
  std::string deadline = "inf";
  int attempts = 4;
  bool parse_special = false;
  bool no_special = false;
  bool json = false;
  bool quiet = false;
};

// What the caller saw of one call, by the caller's clock.
struct Figures {
  absl::Time start = absl::Now();
  absl::Time first_delta = absl::InfiniteFuture();
  absl::Time last_delta = absl::InfiniteFuture();
  int64_t first_delta_tokens = 0;
  int64_t tokens = 0;
  std::optional<v1::Finished> finished;

  void Count(const v1::Delta& delta) {
    last_delta = absl::Now();
    tokens += delta.token_ids_size();
    if (first_delta == absl::InfiniteFuture()) {
      first_delta = last_delta;
      first_delta_tokens = tokens;
    }
  }
};

std::string ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_EOS:
      return "eos";
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop token";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop string";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "unknown";
  }
}

// "[64 tokens, 123.4 tok/s, ttft 12.1 ms, queue 0.2 ms, length, seed 7]". Tokens a second are those
// after the first delta, over the time since it.
std::string Footer(const Figures& figures) {
  std::vector<std::string> parts = {absl::StrCat(figures.tokens, " tokens")};
  if (figures.tokens > figures.first_delta_tokens) {
    const double seconds = absl::ToDoubleSeconds(figures.last_delta - figures.first_delta);
    const int64_t tokens = figures.tokens - figures.first_delta_tokens;
    if (seconds > 0) {
      parts.push_back(absl::StrFormat("%.1f tok/s", static_cast<double>(tokens) / seconds));
    }
  }
  if (figures.tokens > 0) {
    parts.push_back(absl::StrFormat(
        "ttft %.1f ms", absl::ToDoubleMilliseconds(figures.first_delta - figures.start)));
  }
  if (figures.finished) {
    parts.push_back(absl::StrFormat("queue %.1f ms", figures.finished->timings().queue_ms()));
    parts.push_back(ReasonName(figures.finished->reason()));
    parts.push_back(absl::StrCat("seed ", figures.finished->seed()));
  }
  return "[" + absl::StrJoin(parts, ", ") + "]";
}

// One final line end belongs to the shell (echo), not to the prompt.
std::string ReadAll(std::istream& in) {
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

v1::GenerateRequest MakeRequest(const GenerateFlags& flags, Io& io) {
  v1::GenerateRequest request;
  flags.sampling.ApplyTo(request);
  request.set_request_id(flags.request_id);
  if (!flags.token_ids.empty()) {
    request.mutable_token_ids()->mutable_ids()->Add(flags.token_ids.begin(), flags.token_ids.end());
    return request;
  }
  request.set_text(flags.words.empty() ? ReadAll(io.in) : absl::StrJoin(flags.words, " "));
  request.set_parse_special_tokens(flags.parse_special);
  if (flags.no_special) request.set_add_special_tokens(false);
  return request;
}

std::string ToJsonLine(const v1::GenerateResponse& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const bool ok = google::protobuf::util::MessageToJsonString(message, &json, options).ok();
  return ok ? json : "{}";
}

void ReadStream(GenerateStream& stream, const GenerateFlags& flags, Figures& figures, Io& io) {
  v1::GenerateResponse message;
  while (stream.Next(&message)) {
    if (message.has_delta()) figures.Count(message.delta());
    if (message.has_finished()) figures.finished = message.finished();
    if (flags.json) {
      io.out << ToJsonLine(message) << std::endl;
    } else if (message.has_delta()) {
      io.out << message.delta().text() << std::flush;
    }
  }
}

int RunGenerate(const GenerateFlags& flags, const Connection& connection, Io& io) {
  const v1::GenerateRequest request = MakeRequest(flags, io);
  std::optional<InterruptWatch> interrupt;
  if (io.catch_interrupt) interrupt.emplace();
  const auto client = InferenceClient::Create(connection.address, flags.attempts);
  Figures figures;
  const auto stream = client->Generate(request, DurationOf(flags.deadline));
  if (interrupt) interrupt->Start([&stream] { stream->Cancel(); });
  ReadStream(*stream, flags, figures, io);
  const CallResult result = stream->Finish();
  if (interrupt) interrupt->Stop();

  if (flags.json) {
    if (!result.ok()) io.out << ErrorJson(result) << std::endl;
    return ExitCodeOf(result.status);
  }
  (io.out_is_terminal ? io.out : io.err) << std::endl;  // the text rarely ends a line itself
  if (!result.ok()) io.err << ErrorLine(result) << "\n";
  if (!flags.quiet && (result.ok() || figures.tokens > 0)) {
    const std::string footer = Footer(figures);
    io.err << (io.color ? absl::StrCat("\x1b[2m", footer, "\x1b[0m") : footer) << "\n";
  }
  return ExitCodeOf(result.status);
}

}  // namespace

Command AddGenerateCommand(CLI::App& parent, const Connection& connection) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* app = parent.add_subcommand("generate", "Continue a prompt");
  auto* words = app->add_option("prompt", flags->words, "Prompt; absent: standard input");
  app->add_option("--token-ids", flags->token_ids, "Prompt as token ids: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(words);
  app->add_flag("--parse-special", flags->parse_special,
                "Control tokens spelled out in the prompt become their ids");
  app->add_flag("--no-special", flags->no_special, "Add no BOS or the like to the prompt");
  app->add_option("--request-id", flags->request_id, "For the server's log");
  AddDurationOption(*app, "--deadline", flags->deadline, "Give up after so long");
  app->add_option("--attempts", flags->attempts, "Tries in all while the server is busy or away")
      ->check(CLI::Range(1, 5))
      ->capture_default_str();
  app->add_flag("--json", flags->json,
                "Print each message of the stream as one line of JSON (rally.v1.GenerateResponse), "
                "and an error as a last line {\"error\": ...}");
  app->add_flag("-q,--quiet", flags->quiet, "No figures at the end");
  flags->sampling.AddTo(*app);
  app->footer(kExitCodesHelp);
  return {app, [flags, &connection](Io& io) { return RunGenerate(*flags, connection, io); }};
}

}  // namespace rally
