#include "tests/testing/hash_chain_model.h"

#include <algorithm>
#include <string>

#include "kernels/host/host_ops.h"

namespace rally {
namespace {

constexpr uint64_t kStart = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t a, uint64_t b) {  // splitmix64's finalizer over a combination
  uint64_t x = a * 0xff51afd7ed558ccd + b + kStart;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t KvValue(uint64_t seed, int32_t position, int32_t token) {
  return Mix(Mix(seed, static_cast<uint64_t>(position)), static_cast<uint64_t>(token));
}

int32_t NextToken(uint64_t fold, uint64_t seed, int32_t output_count, int32_t min_tokens,
                  std::span<const int32_t> stop_ids) {
  auto token = static_cast<int32_t>(Mix(Mix(fold, seed), static_cast<uint64_t>(output_count)) %
                                    kHashVocabulary);
  const auto stops = [&](int32_t id) {
    return std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end();
  };
  while (output_count < min_tokens && stops(token)) token = (token + 1) % kHashVocabulary;
  return token;
}

}  // namespace

absl::Status HashChainModel::Prepare(const StepLimits& limits, int32_t block_tokens) {
  limits_ = limits;
  block_tokens_ = block_tokens;
  tokens_.resize(limits.max_tokens);
  return absl::OkStatus();
}

void HashChainModel::Forward(Stream& stream, const StepTensors& step, const StepShape& shape) {
  auto& scripted = static_cast<ScriptedStream&>(stream);
  scripted.Op([this, step, shape] {
    RunApplyRecord({.record = step.record,
                    .outcome = step.outcome,
                    .tables = step.tables,
                    .tokens = tokens_.data(),
                    .shape = shape});
    step.outcome.header->start_ns = device_->ClockNanos();
  });
  scripted.Op([this, step] { KvAppend(step); });
  scripted.Op([this, step] { Sample(step); });
}

uint64_t* HashChainModel::KvAt(const StepTensors& step, int32_t slot, int32_t position) const {
  const int32_t column = position / block_tokens_;
  const int32_t block = step.tables.block_tables[slot * step.tables.max_blocks_per_slot + column];
  return reinterpret_cast<uint64_t*>(step.kv_base) + int64_t{block} * block_tokens_ +
         position % block_tokens_;
}

void HashChainModel::KvAppend(const StepTensors& step) {
  for (int32_t t = 0; t < step.record.header->token_count; ++t) {
    const TokenMeta& token = tokens_[t];
    *KvAt(step, token.slot, token.position) =
        KvValue(step.tables.slots[token.slot].seed, token.position, token.id);
  }
  // Nothing may depend on what the null block holds.
  for (int32_t i = 0; i < block_tokens_; ++i) reinterpret_cast<uint64_t*>(step.kv_base)[i] = i;
}

void HashChainModel::Sample(const StepTensors& step) {
  const StepHeader& header = *step.record.header;
  for (int32_t i = 0; i < header.sample_count; ++i) {
    const StepSample& sample = step.record.samples[i];
    const SlotState& slot = step.tables.slots[sample.slot];
    uint64_t fold = kStart;
    for (int32_t p = 0; p <= tokens_[sample.token_index].position; ++p) {
      fold = Mix(fold, *KvAt(step, sample.slot, p));
    }
    const int32_t token =
        NextToken(fold, slot.seed, slot.output_count, slot.min_tokens,
                  std::span(slot.stop_ids, static_cast<size_t>(slot.stop_id_count)));
    CommitSample({.token = token}, sample.slot, &step.tables.slots[sample.slot],
                 &step.outcome.rows[i]);
  }
  step.outcome.header->end_ns = device_->ClockNanos();
}

std::vector<int32_t> HashChainStream(const HashChainRequest& request) {
  std::vector<int32_t> ids(request.prompt.begin(), request.prompt.end());
  std::vector<int32_t> output;
  uint64_t fold = kStart;
  for (size_t p = 0; static_cast<int32_t>(output.size()) < request.max_tokens; ++p) {
    fold = Mix(fold, KvValue(request.seed, static_cast<int32_t>(p), ids[p]));
    if (p + 1 < ids.size()) continue;
    const int32_t token = NextToken(fold, request.seed, static_cast<int32_t>(output.size()),
                                    request.min_tokens, request.stop_ids);
    ids.push_back(token);
    output.push_back(token);
    const auto& stops = request.stop_ids;
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
  }
  return output;
}

Vocabulary HashChainVocabulary() {
  std::vector<Vocabulary::Token> tokens(kHashVocabulary);
  for (int32_t id = 0; id < kHashVocabulary; ++id) {
    if (id < 2) {
      tokens[id].special = true;
      tokens[id].bytes = "<" + std::to_string(id) + ">";
      continue;
    }
    tokens[id].bytes = std::string(1, static_cast<char>('a' + id % 3));
    if (id % 2 == 0) tokens[id].bytes += static_cast<char>('a' + id % 5);
  }
  return Vocabulary(std::move(tokens));
}

}  // namespace rally
