#include "tests/bench/decode/decode_case.h"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "tests/testing/collecting_sink.h"

namespace rally {
namespace {

constexpr int32_t kWarmSteps = 16;  // of a run, before the measured ones
constexpr int32_t kLeastSteps = 16;

RequestSpec RandomRequest(int32_t prompt, int32_t output, int32_t vocab_size,
                          std::mt19937& random) {
  RequestSpec spec;
  for (int32_t i = 0; i < prompt; ++i) {
    spec.prompt_ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
  }
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = output;
  spec.stop.ignore_eos = true;
  spec.arrival = MonotonicClock::Get().Now();
  return spec;
}

// Runs `count` requests of one shape to their end.
absl::Status RunRequests(Engine* engine, int32_t count, const DecodeShape& shape,
                         int32_t vocab_size, std::mt19937& random) {
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int32_t i = 0; i < count; ++i) {
    sinks.push_back(std::make_shared<CollectingSink>());
    RALLY_RETURN_IF_ERROR(
        engine
            ->Submit(RandomRequest(shape.prompt_tokens, shape.output_tokens, vocab_size, random),
                     sinks.back())
            .status());
  }
  for (const auto& sink : sinks) RALLY_RETURN_IF_ERROR(sink->WaitForFinish().status);
  return absl::OkStatus();
}

// Steps from the first row's first token until the last row has its own.
int32_t PrefillLag(const DecodeCase& c, int32_t prompt) {
  const int64_t tokens = int64_t{c.batch} * prompt;
  const int32_t budget = std::max(1, c.step_tokens - c.batch);  // decode rows come first
  return static_cast<int32_t>((tokens + budget - 1) / budget) + 1;
}

bool IsFull(const TracedStep& s, const DecodeCase& c) {
  return s.rows == c.batch && s.samples == c.batch && (c.whole_prefix || s.tokens == c.batch);
}

// The longest stretch of steps with all rows decoding, less its first steps.
std::span<const TracedStep> SteadySteps(std::span<const TracedStep> steps, const DecodeCase& c) {
  std::span<const TracedStep> longest;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i;
    while (end < steps.size() && IsFull(steps[end], c)) ++end;
    if (end - i > longest.size()) longest = steps.subspan(i, end - i);
    i = end + 1;
  }
  return longest.subspan(std::min<size_t>(longest.size(), kWarmSteps));
}

double Microseconds(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

Summary Summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() * 99 / 100]};
}

// Median over runs, of each figure on its own.
Summary MedianOf(const std::vector<Summary>& runs) {
  std::vector<double> medians, p99s;
  for (const Summary& run : runs) {
    medians.push_back(run.median);
    p99s.push_back(run.p99);
  }
  return {Summarize(medians).median, Summarize(p99s).median};
}

struct RunFigures {
  std::vector<double> step, busy, idle;
  double context_sum = 0;
};

// `steps` holds one step more than is measured.
RunFigures FiguresOf(std::span<const TracedStep> steps) {
  RunFigures figures;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    figures.step.push_back(Microseconds(steps[i + 1].start_ns - steps[i].start_ns));
    figures.busy.push_back(Microseconds(steps[i].end_ns - steps[i].start_ns));
    figures.idle.push_back(Microseconds(steps[i + 1].start_ns - steps[i].end_ns));
    figures.context_sum += static_cast<double>(steps[i].context_sum);
  }
  return figures;
}

void WriteTrace(const TraceFile& trace, int32_t repeat, std::span<const TracedStep> all,
                std::span<const TracedStep> measured) {
  if (trace.file == nullptr) return;
  for (const TracedStep& s : all) {
    const bool counts =
        !measured.empty() && s.step >= measured.front().step && s.step <= measured.back().step;
    const int decodes = s.tokens == s.rows && s.samples == s.rows ? 1 : 0;
    std::fprintf(trace.file, "%s,%d,%llu,%lld,%lld,%d,%d,%d,%d\n", trace.case_name.c_str(), repeat,
                 static_cast<unsigned long long>(s.step), static_cast<long long>(s.start_ns),
                 static_cast<long long>(s.end_ns), s.rows, s.tokens, decodes, counts ? 1 : 0);
  }
}

}  // namespace

absl::StatusOr<DecodeShape> ShapeOfRun(const DecodeCase& c) {
  const int32_t lag = PrefillLag(c, c.context);
  const int32_t below = c.context - kWarmSteps - lag / 2 - 1;        // room for half the steps
  const int32_t above = c.context_tokens - c.context - lag / 2 - 3;  // and for the other half
  const int32_t steps = std::min(c.steps, 2 * std::min(below, above));
  if (steps < std::min(kLeastSteps, c.steps)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--context: ", c.context, " at batch ", c.batch, " leaves no room for ", kLeastSteps,
        " measured steps in the ", c.context_tokens, " positions of the engine"));
  }
  return DecodeShape{.prompt_tokens = c.context - kWarmSteps - lag / 2 - steps / 2,
                     .output_tokens = lag + kWarmSteps + steps + 2,
                     .steps = steps};
}

absl::StatusOr<DecodeFigures> MeasureDecode(Engine* engine, StepTrace* trace, const DecodeCase& c,
                                            const TraceFile& file) {
  RALLY_ASSIGN_OR_RETURN(const DecodeShape shape, ShapeOfRun(c));
  std::mt19937 random(static_cast<uint32_t>(c.batch) * 1000003u + static_cast<uint32_t>(c.context));
  std::vector<Summary> step, busy, idle;
  DecodeFigures figures;
  figures.steps = shape.steps;
  double context_sum = 0;
  for (int32_t repeat = 0; repeat <= c.repeats; ++repeat) {  // the first does not count
    trace->Clear();
    RALLY_RETURN_IF_ERROR(RunRequests(engine, c.batch, shape, c.vocab_size, random));
    const std::span<const TracedStep> all = trace->Steps();
    std::span<const TracedStep> steady = SteadySteps(all, c);
    const auto wanted = static_cast<size_t>(shape.steps) + 1;
    if (steady.size() < wanted) {
      return absl::InternalError(absl::StrCat("batch ", c.batch, ", context ", c.context, ": only ",
                                              steady.size(), " steps had all rows, not ", wanted));
    }
    steady = steady.first(wanted);
    WriteTrace(file, repeat, all, repeat > 0 ? steady : std::span<const TracedStep>());
    if (repeat == 0) continue;
    const RunFigures run = FiguresOf(steady);
    step.push_back(Summarize(run.step));
    busy.push_back(Summarize(run.busy));
    idle.push_back(Summarize(run.idle));
    context_sum += run.context_sum;
  }
  figures.context_mean = context_sum / (double{1} * c.repeats * shape.steps * c.batch);
  figures.step_us = MedianOf(step);
  figures.busy_us = MedianOf(busy);
  figures.idle_us = MedianOf(idle);
  return figures;
}

absl::StatusOr<Summary> MeasurePrefill(Engine* engine, StepTrace* trace, int32_t tokens,
                                       const DecodeCase& c) {
  std::mt19937 random(static_cast<uint32_t>(tokens));
  std::vector<double> micros;
  for (int32_t repeat = 0; repeat <= c.repeats; ++repeat) {  // the first does not count
    trace->Clear();
    RALLY_RETURN_IF_ERROR(RunRequests(engine, 1, {.prompt_tokens = tokens, .output_tokens = 1},
                                      c.vocab_size, random));
    const std::span<const TracedStep> steps = trace->Steps();
    if (steps.size() != 1 || steps[0].tokens != tokens) {
      return absl::InternalError(
          absl::StrCat("--prefill: ", tokens, " tokens took ", steps.size(), " steps, not one"));
    }
    if (repeat > 0) micros.push_back(Microseconds(steps[0].end_ns - steps[0].start_ns));
  }
  return Summarize(std::move(micros));
}

}  // namespace rally
