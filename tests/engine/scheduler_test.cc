// Schedules as tables: each file of tables/ is a script with the plans that it must give. Lines
// that begin with "=>" are expected output; UPDATE_GOLDEN=1 scheduler_test rewrites them.
//
//   limits rows=2 tokens=8 chunk=4 block=2 blocks=6    starts over; most=9: the pool may grow so
//   far submit a prompt=5 limit=3                          a joins the queue step Schedule and
//   Commit join                                               the oldest step's outcome: one token
//   a sample end a                                              Retire
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace rally {
namespace {

std::map<std::string, int> Arguments(std::istringstream& words) {
  std::map<std::string, int> arguments;
  std::string word;
  while (words >> word) {
    const size_t equals = word.find('=');
    arguments[word.substr(0, equals)] = std::atoi(word.c_str() + equals + 1);
  }
  return arguments;
}

class Player {
 public:
  // The lines that the command gives.
  std::string Play(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "limits") return Limits(Arguments(words));
    if (command == "submit") return Submit(words);
    if (command == "step") return Step();
    if (command == "join") return Join();
    if (command == "end") return EndOne(words);
    return absl::StrCat("unknown command '", command, "'\n");
  }

 private:
  std::string Limits(std::map<std::string, int> a) {
    limits_ = {.max_rows = a["rows"],
               .max_step_tokens = a["tokens"],
               .max_chunk_tokens = a["chunk"],
               .block_tokens = a["block"],
               .max_blocks = a["most"],
               .kv_cache = a["nocache"] == 0};
    plans_.clear();
    sequences_.clear();
    names_.clear();
    state_ = std::make_unique<SchedulerState>(a["blocks"], 2 * a["rows"]);
    return "";
  }

  std::string Submit(std::istringstream& words) {
    std::string name;
    words >> name;
    std::map<std::string, int> a = Arguments(words);
    auto& s = sequences_[name] = std::make_unique<Sequence>();
    s->key = sequences_.size();
    s->prompt_count = a["prompt"];
    s->output_limit = a["limit"];
    s->ids.assign(a["prompt"], 0);
    names_[s.get()] = name;
    state_->waiting.push_back(s.get());
    return "";
  }

  std::string Step() {
    StepPlan plan;
    Schedule(*state_, limits_, &plan);
    std::string grown;
    if (plan.pool_blocks > 0) {
      grown = absl::StrCat("=> pool grows to ", plan.pool_blocks, "\n");
      state_->blocks.GrowTo(plan.pool_blocks);
      Schedule(*state_, limits_, &plan);
    }
    Commit(&plan, state_.get());
    std::string out = plan.HasRows() ? absl::StrCat("=> step ", plan.step, ":") : "=> no rows";
    for (const PlanRow& row : plan.rows) {
      absl::StrAppend(&out, " ", names_[row.sequence], "[", row.first_position, ",",
                      row.first_position + row.token_count, ")", row.samples ? "*" : "");
    }
    if (!plan.preempted.empty()) absl::StrAppend(&out, "  preempts");
    for (Sequence* s : plan.preempted) absl::StrAppend(&out, " ", names_[s]);
    if (plan.rejected != nullptr) absl::StrAppend(&out, "  rejects ", names_[plan.rejected]);
    if (plan.HasRows()) plans_.push_back(plan);
    return absl::StrCat(grown, out, Books());
  }

  std::string Join() {
    const StepPlan plan = plans_.front();
    plans_.pop_front();
    for (const PlanRow& row : plan.rows) {
      if (row.sequence->state == SequenceState::kEnded) continue;
      row.sequence->confirmed += row.token_count;
      if (row.samples) row.sequence->ids.push_back(1);
    }
    CompleteStep(plan.step, state_.get());
    return absl::StrCat("=> joined ", plan.step, Books());
  }

  std::string EndOne(std::istringstream& words) {
    std::string name;
    words >> name;
    Retire(sequences_[name].get(), state_.get());
    return absl::StrCat("=> ended", Books());
  }

  std::string Books() const {
    const IdPool& b = state_->blocks;
    return absl::StrCat("  (free ", b.free(), ", held ", b.held(), ", releasing ", b.releasing(),
                        ")\n");
  }

  SchedulerLimits limits_;
  std::unique_ptr<SchedulerState> state_;
  std::map<std::string, std::unique_ptr<Sequence>> sequences_;
  std::map<const Sequence*, std::string> names_;
  std::deque<StepPlan> plans_;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Replay(const std::string& script) {
  Player player;
  std::string out;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=>")) continue;
    absl::StrAppend(&out, line, "\n");
    if (!line.empty() && line[0] != '#') out += player.Play(line);
  }
  return out;
}

TEST(SchedulerTest, TablesGiveTheirPlans) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(RALLY_SOURCE_DIR "/tests/engine/tables")) {
    const std::string expected = ReadFile(entry.path());
    const std::string actual = Replay(expected);
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(entry.path()) << actual;
    EXPECT_EQ(actual, ReadFile(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace rally
