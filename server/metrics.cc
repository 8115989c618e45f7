#include "server/metrics.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace rally {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;
using prometheus::MetricType;

prometheus::MetricFamily NewFamily(std::string name, std::string help, MetricType type) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

void AddSample(prometheus::MetricFamily& family, Labels labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

// _count is the sum of the buckets as they were read, so that it always equals the +Inf bucket.
void AddHistogram(prometheus::MetricFamily& family, Labels labels, const DurationHistogram& from) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  uint64_t count = 0;
  for (size_t i = 0; i < from.bucket_count(); ++i) {
    count += static_cast<uint64_t>(from.bucket(i));
    if (i < from.bounds_s().size()) {
      metric.histogram.bucket.push_back({count, from.bounds_s()[i]});
    }
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = from.sum_s();
  family.metric.push_back(std::move(metric));
}

// Builds the families of all ranks: one sample, or one histogram, a rank in each.
class RankFamilies {
 public:
  explicit RankFamilies(const std::vector<const Engine*>& engines) {
    for (const Engine* engine : engines) {
      // Two ranks of one name would be one series twice, which fails the whole scrape.
      std::string name = engine->device_name();
      const auto same = [&](const Rank& rank) { return rank.name == name; };
      if (std::any_of(ranks_.begin(), ranks_.end(), same))
        absl::StrAppend(&name, "#", ranks_.size());
      ranks_.push_back({std::move(name), &engine->stats()});
    }
  }

  template <typename Read>
  void Gauge(std::string name, std::string help, Read read) {
    AddScalars(NewFamily(std::move(name), std::move(help), MetricType::Gauge), read);
  }
  template <typename Read>
  void Counter(std::string name, std::string help, Read read) {
    AddScalars(NewFamily(std::move(name), std::move(help), MetricType::Counter), read);
  }
  // One family with a label of a closed set; `values` are pairs of label value and reader.
  struct Split {
    std::string_view value;
    double (*read)(const EngineStats&);
  };
  void SplitBy(std::string label, MetricType type, std::string name, std::string help,
               const std::vector<Split>& values) {
    prometheus::MetricFamily family = NewFamily(std::move(name), std::move(help), type);
    for (const Rank& rank : ranks_) {
      for (const Split& split : values) {
        AddSample(family, {{"rank", rank.name}, {label, std::string(split.value)}},
                  split.read(*rank.stats));
      }
    }
    families_.push_back(std::move(family));
  }
  void Histogram(std::string name, std::string help, DurationHistogram EngineStats::*member) {
    prometheus::MetricFamily family =
        NewFamily(std::move(name), std::move(help), MetricType::Histogram);
    for (const Rank& rank : ranks_) {
      AddHistogram(family, {{"rank", rank.name}}, rank.stats->*member);
    }
    families_.push_back(std::move(family));
  }
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  struct Rank {
    std::string name;
    const EngineStats* stats;
  };

  template <typename Read>
  void AddScalars(prometheus::MetricFamily family, Read read) {
    for (const Rank& rank : ranks_) {
      AddSample(family, {{"rank", rank.name}}, static_cast<double>(read(*rank.stats)));
    }
    families_.push_back(std::move(family));
  }

  std::vector<Rank> ranks_;
  std::vector<prometheus::MetricFamily> families_;
};

double Seconds(const Counter& ns) { return static_cast<double>(ns.value()) * 1e-9; }

void AddRequestFamilies(RankFamilies& out) {
  using S = EngineStats;
  out.Counter("rally_requests_accepted_total", "Requests that a rank took.",
              [](const S& s) { return s.requests_accepted.value(); });
  out.Gauge("rally_queue_requests", "Accepted requests that wait for their first step.",
            [](const S& s) { return s.queued_requests.value(); });
  out.Gauge("rally_running_requests", "Requests in the running batch.",
            [](const S& s) { return s.running_requests.value(); });
  out.Histogram("rally_queue_time_seconds", "Arrival until the first step that holds the request.",
                &S::queue_time);
  out.Histogram("rally_time_to_first_token_seconds",
                "Arrival to the first token; requests without a token do not count.", &S::ttft);
  out.Histogram("rally_inter_token_latency_seconds",
                "Between two tokens of one request; the first token does not count.",
                &S::inter_token_latency);
  out.Histogram("rally_request_duration_seconds", "Arrival to the end of accepted requests.",
                &S::request_time);
  out.SplitBy(
      "kind", MetricType::Counter, "rally_tokens_total",
      "prompt: positions prefilled, recomputed ones included. generated: tokens delivered.",
      {{"prompt", [](const S& s) { return static_cast<double>(s.prompt_tokens.value()); }},
       {"generated", [](const S& s) { return static_cast<double>(s.generated_tokens.value()); }}});
  out.Counter("rally_preemptions_total", "Running requests put back into the queue for KV blocks.",
              [](const S& s) { return s.preemptions.value(); });
}

void AddStepFamilies(RankFamilies& out) {
  using S = EngineStats;
  out.Gauge("rally_rank_up", "1 while the rank accepts work, 0 once it is lost.",
            [](const S& s) { return s.rank_up.value(); });
  out.SplitBy(
      "state", MetricType::Gauge, "rally_kv_blocks", "KV blocks; the states sum to the pool.",
      {{"free", [](const S& s) { return static_cast<double>(s.kv_blocks_free.value()); }},
       {"held", [](const S& s) { return static_cast<double>(s.kv_blocks_held.value()); }},
       {"cached", [](const S& s) { return static_cast<double>(s.kv_blocks_cached.value()); }},
       {"releasing",
        [](const S& s) { return static_cast<double>(s.kv_blocks_releasing.value()); }}});
  out.Counter("rally_kv_pool_growths_total", "Growths of a KV pool that is not fixed.",
              [](const S& s) { return s.kv_pool_growths.value(); });
  out.Counter("rally_kv_pool_refusals_total",
              "Growths for which the device had no memory; the pool grows no more then.",
              [](const S& s) { return s.kv_pool_refusals.value(); });
  out.Counter("rally_steps_total", "Model steps run.", [](const S& s) { return s.steps.value(); });
  out.Histogram("rally_step_duration_seconds", "Start to end of a step, by device stamps.",
                &S::step_time);
  out.Counter("rally_busy_seconds_total", "Time in which the device ran a step.",
              [](const S& s) { return Seconds(s.busy_ns); });
  out.SplitBy("cause", MetricType::Counter, "rally_idle_seconds_total",
              "Time in which the device ran no step. bubble: work was runnable. no_work: none was.",
              {{"bubble", [](const S& s) { return Seconds(s.idle_bubble_ns); }},
               {"no_work", [](const S& s) { return Seconds(s.idle_no_work_ns); }}});
  out.Gauge("rally_steps_timed_by_events",
            "How steps and the idle time between them are timed: 0, by stamps of the device clock; "
            "1, by events, since that clock ticks too coarsely.",
            [](const S& s) { return s.timed_by_events.value(); });
  out.Histogram("rally_idle_bubble_seconds",
                "Idle time between two steps although work was runnable, one observation a gap.",
                &S::idle_bubble);
  out.Counter("rally_surplus_rows_total", "Rows computed for a request that had already ended.",
              [](const S& s) { return s.surplus_rows.value(); });
  out.Counter("rally_stale_outcomes_total", "Step results dropped by their generation number.",
              [](const S& s) { return s.stale_outcomes.value(); });
}

std::vector<prometheus::MetricFamily> ServerFamilies(const MetricsSource& source) {
  const ServerStats& stats = *source.server;
  std::vector<prometheus::MetricFamily> families;
  families.push_back(NewFamily("rally_requests_received_total", "Generate calls, refused ones too.",
                               MetricType::Counter));
  AddSample(families.back(), {}, static_cast<double>(stats.requests_received.value()));
  families.push_back(NewFamily(
      "rally_requests_total",
      "Generate calls that have ended, each with one outcome; their sum is the calls received.",
      MetricType::Counter));
  for (size_t i = 0; i < kOutcomeLabels.size(); ++i) {
    AddSample(families.back(), {{"outcome", std::string(kOutcomeLabels[i])}},
              static_cast<double>(stats.requests_ended[i].value()));
  }
  families.push_back(NewFamily("rally_inflight_requests",
                               "Calls in the server: tokenizing, queued, running, being written.",
                               MetricType::Gauge));
  AddSample(families.back(), {}, static_cast<double>(stats.inflight.load()));
  families.push_back(NewFamily("rally_build_info", "1, with what runs.", MetricType::Gauge));
  AddSample(families.back(), {{"version", source.version}, {"model", source.model_name}}, 1);
  return families;
}

std::vector<prometheus::MetricFamily> CollectFamilies(const MetricsSource& source) {
  std::vector<prometheus::MetricFamily> families = ServerFamilies(source);
  RankFamilies ranks(source.engines);
  AddRequestFamilies(ranks);
  AddStepFamilies(ranks);
  for (prometheus::MetricFamily& family : ranks.Take()) families.push_back(std::move(family));
  return families;
}

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(MetricsSource source) : source_(std::move(source)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    return CollectFamilies(source_);
  }

 private:
  const MetricsSource source_;
};

class ExposerEndpoint final : public MetricsEndpoint {
 public:
  ExposerEndpoint(const std::string& address, MetricsSource source)
      : collector_(std::make_shared<Collector>(std::move(source))), exposer_(address) {
    exposer_.RegisterCollectable(collector_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  std::shared_ptr<Collector> collector_;
  prometheus::Exposer exposer_;
};

}  // namespace

std::string RenderMetrics(const MetricsSource& source) {
  return prometheus::TextSerializer().Serialize(CollectFamilies(source));
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(const std::string& address,
                                                                        MetricsSource source) {
  try {
    return std::make_unique<ExposerEndpoint>(address, std::move(source));
  } catch (const std::exception& e) {
    return absl::UnavailableError(
        absl::StrCat("--metrics-listen: cannot listen on ", address, ": ", e.what()));
  }
}

}  // namespace rally
