// What a step reads and writes besides weights and KV: plain data that host and device share.
//
// A *step* runs rows of several sequences at once: a row is one token of a decoding sequence, or a
// chunk of a prompt. The rows' tokens lie flat, one after the other. The host writes a StepRecord
// into pinned memory; the step's first kernel applies it to the slot tables, its last kernel fills
// a StepOutcome. Records and outcomes are doubled on the device (half i mod 2 belongs to stream
// i mod 2); slot tables and KV are not.
//
// A *slot* is the device state of one running sequence. Slot 0 and KV block 0 are the null slot and
// the null block: padding rows of a captured graph point there and nothing reads what they write.
#ifndef RALLY_KERNELS_STEP_RECORD_H_
#define RALLY_KERNELS_STEP_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace rally {

inline constexpr int kMaxStopIds = 32;  // a request's own and the model's end ids together
inline constexpr int32_t kNullSlot = 0;
inline constexpr int32_t kNullBlock = 0;
inline constexpr int32_t kTokenFromSlot = -1;  // "the token that this slot sampled last"

// Sampling parameters and progress of one sequence, on the device. Reset as a whole.
struct SlotState {
  int32_t last_token = 0;     // what the newest step sampled
  int32_t output_count = 0;   // tokens sampled so far: the position of the next one in the output
  int32_t done = 0;           // 1 once a stop id was sampled
  uint32_t generation = 0;    // names the tenant; outcomes carry it
  uint64_t seed = 0;          // noise is a function of (seed, output_count, token id) alone
  float temperature = 0;      // 0: greedy
  float top_p = 1;            // (0, 1]; 1: off
  float min_p = 0;            // [0, 1]; 0: off
  int32_t top_k = 0;          // 0: off
  int32_t min_tokens = 0;     // stop ids cannot be sampled while output_count < min_tokens
  int32_t stop_id_count = 0;  // used entries of stop_ids
  int32_t stop_ids[kMaxStopIds] = {};
};

struct StepHeader {
  uint64_t step = 0;
  int32_t row_count = 0;
  int32_t token_count = 0;
  int32_t sample_count = 0;
  int32_t block_update_count = 0;
  int32_t reset_count = 0;
};

// One sequence's share of a step: `token_count` tokens from `token_begin` on in the flat list, at
// positions first_position, first_position + 1, ...
struct StepRow {
  int32_t slot = kNullSlot;
  int32_t token_begin = 0;
  int32_t token_count = 0;
  int32_t first_position = 0;
};

// The logits of flat token `token_index` are computed and one token is sampled for `slot`.
struct StepSample {
  int32_t token_index = 0;
  int32_t slot = kNullSlot;
};

// block_tables[slot][index] = block
struct BlockUpdate {
  int32_t slot = kNullSlot;
  int32_t index = 0;
  int32_t block = kNullBlock;
};

struct SlotReset {
  int32_t slot = kNullSlot;
  SlotState state;
};

enum OutcomeFlags : int32_t {
  kOutcomeStopId = 1,     // the token is one of the slot's stop ids
  kOutcomeNotFinite = 2,  // a logit of the row was NaN or +Inf, or all were -Inf: no token
  kOutcomeSurplus = 4,    // the slot was done before this step
};

struct OutcomeRow {
  int32_t slot = kNullSlot;
  uint32_t generation = 0;
  int32_t token = 0;
  int32_t flags = 0;
};

struct OutcomeHeader {
  uint64_t step = 0;
  int64_t start_ns = 0;  // device clock: the first kernel of the step starts
  int64_t end_ns = 0;    // device clock: the last kernel of the step ends
  int32_t row_count = 0;
};

// Limits that fix the byte layout of records, outcomes and slot tables. All counts are > 0.
struct StepLimits {
  int32_t max_rows = 0;             // sequences in a step
  int32_t max_tokens = 0;           // flat tokens in a step; >= max_rows
  int32_t max_samples = 0;          // >= max_rows
  int32_t max_block_updates = 0;    // new KV blocks in a step
  int32_t slot_count = 0;           // slots, the null slot included
  int32_t max_blocks_per_slot = 0;  // columns of the block table

  int64_t block_table_entries() const { return int64_t{slot_count} * max_blocks_per_slot; }
};

// Upper bounds of the counts of the steps that one launch or one graph serves, at most the limits'.
// A device whose kernels cost what their launch asks for wants them tight.
struct StepShape {
  int32_t max_rows = 0;
  int32_t max_tokens = 0;
  int32_t max_samples = 0;
  int32_t decode_only = 0;  // 1: every row has one token, which is sampled
};

// Typed pointers into the bytes of one record. The block updates come last: they are many when a
// long prompt is admitted and few else, and only the used bytes, a prefix, are copied.
class StepRecordView {
 public:
  StepRecordView() = default;
  StepRecordView(std::byte* base, const StepLimits& limits);

  static size_t Bytes(const StepLimits& limits);
  size_t UsedBytes() const;

  StepHeader* header = nullptr;
  StepRow* rows = nullptr;               // (max_rows)
  StepSample* samples = nullptr;         // (max_samples)
  int32_t* tokens = nullptr;             // (max_tokens): id or kTokenFromSlot
  SlotReset* resets = nullptr;           // (max_rows)
  BlockUpdate* block_updates = nullptr;  // (max_block_updates)
};

class StepOutcomeView {
 public:
  StepOutcomeView() = default;
  StepOutcomeView(std::byte* base, const StepLimits& limits);

  static size_t Bytes(const StepLimits& limits);

  OutcomeHeader* header = nullptr;
  OutcomeRow* rows = nullptr;  // (max_samples)
};

// The device state that outlives a step.
struct SlotTables {
  SlotState* slots = nullptr;       // (slot_count)
  int32_t* block_tables = nullptr;  // (slot_count, max_blocks_per_slot)
  int32_t max_blocks_per_slot = 0;
};

}  // namespace rally

#endif  // RALLY_KERNELS_STEP_RECORD_H_
