#include "tests/engine/simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rally {
namespace {

constexpr int kMaxTurns = 20000;
constexpr int kMaxContext = 80;
constexpr int kStartUpOps = 6;  // the graph of each half is replayed once: three ops each

int Between(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}
bool Chance(std::mt19937_64& random, double p) {
  return static_cast<double>(random() % 1'000'000) < p * 1e6;
}

// The plain reference for text: what is sent of the raw output `raw` whose tokens end at
// `token_ends`. The first stop string to end wins, the longest of those that end together; a match
// that ends in a token before min_tokens does not count.
struct PlainStop {
  size_t tokens = 0;  // that the stream has
  size_t text_bytes = 0;
  int string_index = -1;
};

PlainStop FindStop(const std::string& raw, const std::vector<size_t>& token_ends,
                   const StopParams& stop) {
  for (size_t t = 0; t < token_ends.size(); ++t) {
    if (static_cast<int32_t>(t) + 1 < stop.min_tokens) continue;
    const size_t begin = t == 0 ? 0 : token_ends[t - 1];
    for (size_t end = begin + 1; end <= token_ends[t]; ++end) {
      int best = -1;
      for (int i = 0; i < static_cast<int>(stop.strings.size()); ++i) {
        const std::string& s = stop.strings[i];
        if (s.size() > end || raw.compare(end - s.size(), s.size(), s) != 0) continue;
        if (best < 0 || s.size() > stop.strings[best].size()) best = i;
      }
      if (best >= 0) return {t + 1, end - stop.strings[best].size(), best};
    }
  }
  return {token_ends.size(), raw.size(), -1};
}

}  // namespace

void RecordingSink::OnDelta(std::span<const int32_t> new_ids, std::string_view new_text) {
  if (finishes > 0) ++deltas_after_finish;
  ids.insert(ids.end(), new_ids.begin(), new_ids.end());
  text += new_text;
}

void RecordingSink::OnFinish(const Finish& f) {
  ++finishes;
  finish = f;
}

Simulation::Simulation(uint64_t seed)
    : seed_(seed), random_(seed), vocabulary_(HashChainVocabulary()) {
  MakeConfig();
  device_ = std::make_unique<ScriptedDevice>(script_);
  model_ = std::make_unique<HashChainModel>(device_.get(), Between(random_, 24, kMaxContext));
  auto plan = PlanEngine(config_, *model_, device_->memory());
  Expect(plan.ok(), absl::StrCat("plan: ", plan.status().ToString()));
  if (!plan.ok()) return;
  plan_ = *plan;
  auto executor = Executor::Create(device_.get(), model_.get(), plan_.executor);
  Expect(executor.ok(), "executor");
  if (!executor.ok()) return;
  executor_ = *std::move(executor);
  state_ =
      std::make_unique<SchedulerState>(executor_->kv_blocks(), plan_.slot_count, plan_.block_count);
  admission_ = std::make_unique<Admission>(plan_.admission, &vocabulary_, &clock_);
  sequences_ = std::make_unique<SequenceTable>(admission_.get(), &stats_, &emitter_, state_.get());
  pipeline_ =
      std::make_unique<StepPipeline>(StepPipeline::Parts{.admission = admission_.get(),
                                                         .executor = executor_.get(),
                                                         .emitter = &emitter_,
                                                         .stats = &stats_,
                                                         .state = state_.get(),
                                                         .sequences = sequences_.get(),
                                                         .vocabulary = &vocabulary_,
                                                         .clock = &clock_,
                                                         .device = device_.get(),
                                                         .observer = this},
                                     plan_.scheduler, plan_.steps_in_flight, absl::Seconds(1));
  MakeClients();
}

Simulation::~Simulation() = default;

void Simulation::MakeConfig() {
  config_.loop = Chance(random_, 0.8) ? LoopKind::kPingPong : LoopKind::kSync;
  config_.max_rows = Between(random_, 1, 6);
  config_.max_step_tokens = config_.max_rows + Between(random_, 0, 20);
  config_.max_chunk_tokens = Between(random_, 1, config_.max_step_tokens);
  config_.kv_block_tokens = Between(random_, 1, 5);
  const int blocks = Between(random_, 3, 40);
  config_.kv_pool_bytes = int64_t{8} * config_.kv_block_tokens * (blocks + 1);
  config_.kv_pool =
      std::vector{KvPoolKind::kFixed, KvPoolKind::kMapped, KvPoolKind::kReallocated}[random_() % 3];
  config_.graphs = Chance(random_, 0.8);
  config_.kv_cache = Chance(random_, 0.8);
  if (!config_.kv_cache) config_.max_step_tokens = kMaxContext + Between(random_, 0, 100);
  config_.max_queued_requests = Between(random_, 2, 30);
  config_.max_queued_tokens = Between(random_, 40, 400);
  config_.emitter_threads = 1;
  config_.eos_ids = {0};
  script_.seed = random_();
  script_.eagerness = std::vector<double>{0, 0.3, 1, 4}[random_() % 4];
  if (Chance(random_, 0.1)) script_.fail_at_op = kStartUpOps + Between(random_, 1, 300);
  if (Chance(random_, 0.1)) script_.hang_at_op = kStartUpOps + Between(random_, 1, 300);
  device_fails_ = script_.fail_at_op.has_value() || script_.hang_at_op.has_value();
}

RequestSpec Simulation::MakeSpec() {
  RequestSpec spec;
  const int prompt = Chance(random_, 0.05) ? Between(random_, 60, 120) : Between(random_, 1, 20);
  for (int i = 0; i < prompt; ++i) spec.prompt_ids.push_back(Between(random_, 0, 31));
  spec.sampling.seed = random_();
  spec.stop.max_tokens = Chance(random_, 0.1) ? 200 : Between(random_, 1, 30);
  spec.stop.min_tokens =
      Chance(random_, 0.3) ? Between(random_, 0, std::min(10, spec.stop.max_tokens)) : 0;
  spec.stop.ignore_eos = Chance(random_, 0.5);
  if (Chance(random_, 0.3)) spec.stop.token_ids.push_back(Between(random_, 2, 31));
  for (int i = Chance(random_, 0.3) ? Between(random_, 1, 3) : 0; i > 0; --i) {
    std::string& s = spec.stop.strings.emplace_back();
    for (int n = Between(random_, 1, 5); n > 0; --n) s += static_cast<char>('a' + random_() % 4);
  }
  return spec;
}

void Simulation::MakeClients() {
  for (int i = Between(random_, 1, 25); i > 0; --i) {
    Client client;
    client.spec = MakeSpec();
    client.sink = std::make_shared<RecordingSink>();
    client.arrival_turn = Between(random_, 0, 60);
    if (Chance(random_, 0.25)) client.cancel_turn = client.arrival_turn + Between(random_, 0, 40);
    if (Chance(random_, 0.1)) {
      client.spec.deadline = clock_.Now() + absl::Milliseconds(Between(random_, 1, 80));
    }
    clients_.push_back(std::move(client));
  }
}

std::string Simulation::Run() {
  for (int turn = 0; failure_.empty() && turn < kMaxTurns; ++turn) {
    Arrivals(turn);
    const absl::StatusOr<bool> progress = pipeline_->Turn();
    if (!progress.ok()) {
      Expect(device_fails_, absl::StrCat("turn: ", progress.status().ToString()));
      admission_->Close("the rank is lost");
      pipeline_->FailAll(absl::UnavailableError("the rank is lost"));
      break;
    }
    CheckBooks();
    CheckInFlight();
    device_->OnHostCall();
    clock_.Advance(absl::Milliseconds(1));
    if (turn > 200 && AllEnded() && !*progress) break;
  }
  if (!failure_.empty()) return failure_;
  Expect(AllEnded(), "a request had no terminal event");
  for (const Client& client : clients_) CheckClient(client);
  CheckTotals();
  return failure_;
}

void Simulation::Arrivals(int turn) {
  for (Client& client : clients_) {
    if (client.arrival_turn == turn) {
      RequestSpec spec = client.spec;
      spec.arrival = clock_.Now();
      const auto key = admission_->Submit(std::move(spec), client.sink);
      client.refused = !key.ok();
      if (key.ok()) client.key = *key;
    }
    if (client.cancel_turn == turn && client.key != 0) {
      admission_->Cancel(client.key, FinishReason::kCancelled);
    }
  }
}

bool Simulation::AllEnded() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const Client& c) {
    return c.refused || c.key == 0 || c.sink->finishes > 0;
  });
}

void Simulation::Expect(bool condition, const std::string& what) {
  if (condition || !failure_.empty()) return;
  failure_ = absl::StrCat("seed ", seed_, ": ", what);
}

// Rules 1 and 2 at the door of the device.
void Simulation::OnLaunch(const StepPlan& plan) {
  std::vector<LaunchedRow>& rows = in_flight_[plan.step];
  for (const PlanRow& row : plan.rows) {
    const Sequence& s = *row.sequence;
    Expect(s.outputs_launched() <= s.output_limit, "a row was launched past a foreseeable end");
    Expect(static_cast<int64_t>(s.blocks.size()) * config_.kv_block_tokens >= s.launched,
           "a row was launched without blocks for its positions");
    for (int32_t block : s.blocks) {
      Expect(block <= executor_->kv_blocks(), "a row names a block without memory");
    }
    rows.push_back({&s, s.slot, s.blocks});
  }
}

void Simulation::CheckBooks() {
  const IdPool& blocks = state_->blocks;
  Expect(blocks.free() + blocks.held() + blocks.releasing() == blocks.total(), "block books");
  Expect(blocks.total() <= plan_.block_count, "the pool is larger than its limit");
  Expect(blocks.total() == executor_->kv_blocks(), "the books differ from the device's pool");
  Expect(blocks.Consistent() && state_->slots.Consistent(), "an id is in two places");
  int32_t owned = 0;
  for (const Sequence* s : state_->running) owned += static_cast<int32_t>(s->blocks.size());
  Expect(owned == blocks.held(), "held blocks differ from what the sequences own");
  Expect(state_->launched_step - state_->completed_step <
             static_cast<uint64_t>(plan_.steps_in_flight) + 1,
         "too many steps in flight");
}

// Rule 3: what a step in flight names is neither free nor somebody else's.
void Simulation::CheckInFlight() {
  in_flight_.erase(in_flight_.begin(), in_flight_.upper_bound(state_->completed_step));
  for (const auto& [step, rows] : in_flight_) {
    for (const LaunchedRow& row : rows) {
      Expect(!state_->slots.IsFree(row.slot), "a slot was released under a step in flight");
      for (int32_t block : row.blocks) {
        Expect(!state_->blocks.IsFree(block), "a block was released under a step in flight");
      }
      for (const Sequence* s : state_->running) {
        if (s == row.sequence) continue;
        Expect(s->slot != row.slot, "a slot has two tenants under a step in flight");
        for (int32_t block : row.blocks) {
          Expect(std::find(s->blocks.begin(), s->blocks.end(), block) == s->blocks.end(),
                 "a block has two owners under a step in flight");
        }
      }
    }
  }
}

void Simulation::CheckClient(const Client& client) {
  if (client.refused || client.key == 0) {
    Expect(client.sink->finishes == 0 && client.sink->ids.empty(), "a refused request got output");
    return;
  }
  Expect(client.sink->finishes == 1, "not exactly one terminal event");
  Expect(client.sink->deltas_after_finish == 0, "output after the terminal event");
  Expect(client.sink->finish.completion_tokens == static_cast<int32_t>(client.sink->ids.size()),
         "usage differs from the ids that were delivered");
  CheckStream(client);
}

void Simulation::CheckStream(const Client& client) {
  const RequestSpec& spec = client.spec;
  const Finish& finish = client.sink->finish;
  const int64_t prompt = static_cast<int64_t>(spec.prompt_ids.size());
  const auto limit = static_cast<int32_t>(
      std::min({int64_t{spec.stop.max_tokens}, plan_.admission.context_tokens - prompt,
                plan_.admission.pool_tokens - prompt + 1}));
  std::vector<int32_t> stop_ids = spec.stop.token_ids;
  if (!spec.stop.ignore_eos) stop_ids.push_back(0);
  std::vector<int32_t> ids = HashChainStream({.prompt = spec.prompt_ids,
                                              .seed = spec.sampling.seed,
                                              .max_tokens = limit,
                                              .min_tokens = spec.stop.min_tokens,
                                              .stop_ids = stop_ids});
  const bool by_id = std::find(stop_ids.begin(), stop_ids.end(), ids.back()) != stop_ids.end();
  std::string raw;
  std::vector<size_t> token_ends;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + 1 < ids.size() || !by_id) raw += vocabulary_.TextBytes(ids[i]);
    token_ends.push_back(raw.size());
  }
  const PlainStop stop = FindStop(raw, token_ends, spec.stop);
  ids.resize(stop.tokens);
  raw.resize(stop.text_bytes);
  if (finish.status.ok()) {
    const FinishReason reason =
        stop.string_index >= 0 ? FinishReason::kStopString
        : !by_id               ? FinishReason::kLength
        : ids.back() == 0 && !spec.stop.ignore_eos &&
                std::find(spec.stop.token_ids.begin(), spec.stop.token_ids.end(), 0) ==
                    spec.stop.token_ids.end()
            ? FinishReason::kEos
            : FinishReason::kStopToken;
    Expect(finish.reason == reason, "wrong finish reason");
    Expect(client.sink->ids == ids, "the stream differs from the plain one");
    Expect(client.sink->text == raw,
           absl::StrCat("text '", client.sink->text, "' is not '", raw, "'"));
    return;
  }
  const bool asked = client.cancel_turn >= 0 || spec.deadline != absl::InfiniteFuture();
  Expect(asked || device_fails_, absl::StrCat("ended by ", finish.status.ToString()));
  Expect(client.sink->ids.size() <= ids.size() &&
             std::equal(client.sink->ids.begin(), client.sink->ids.end(), ids.begin()),
         "an interrupted stream is no prefix of the plain one");
}

void Simulation::CheckTotals() {
  int64_t tokens = 0;
  int64_t ended = 0;
  for (const Client& client : clients_) tokens += client.sink->finish.completion_tokens;
  for (const Counter& counter : stats_.requests_ended) ended += counter.value();
  const auto accepted =
      std::count_if(clients_.begin(), clients_.end(), [](const Client& c) { return c.key != 0; });
  Expect(stats_.generated_tokens.value() == tokens, "generated tokens differ from usage");
  Expect(ended == accepted, "outcomes differ from accepted requests");
  Expect(admission_->outstanding_tokens() == 0, "outstanding tokens are left");
  if (device_fails_) return;
  Expect(state_->Idle(), "sequences are left");
  Expect(state_->blocks.free() == state_->blocks.total(), "blocks are left");
  Expect(state_->slots.free() == state_->slots.total(), "slots are left");
}

}  // namespace rally
