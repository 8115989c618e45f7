#include "engine/text/bpe_tokenizer.h"

#include <utility>

#include "engine/text/utf8.h"

namespace rally {

BpeTokenizer::BpeTokenizer(BpeParts parts, Normalizer normalizer)
    : vocabulary_(std::move(parts.tokens)),
      piece_ids_(std::move(parts.piece_ids)),
      merges_(std::move(parts.merges)),
      prefix_ids_(std::move(parts.prefix_ids)),
      suffix_ids_(std::move(parts.suffix_ids)),
      eos_ids_(std::move(parts.eos_ids)),
      normalizer_(std::move(normalizer)) {
  // Special tokens first: where two contents are equal, they are the ones found.
  for (bool special : {true, false}) {
    for (AddedToken& token : parts.added_tokens) {
      if (token.special != special) continue;
      if (token.normalized && normalizer_) token.content = normalizer_(token.content);
      (token.normalized ? added_in_normalized_ : added_in_text_).Add(token);
    }
  }
}

std::vector<int32_t> BpeTokenizer::Encode(std::string_view text,
                                          const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = prefix_ids_;
  BpeMerger merger(merges_);
  const bool parse_special = options.parse_special_tokens;
  const std::string valid_text = ReplaceInvalidUtf8(text);
  for (const auto& stretch : added_in_text_.Split(valid_text, parse_special)) {
    const bool at_start = stretch.text.data() == valid_text.data();
    if (stretch.id >= 0) {
      ids.push_back(stretch.id);
    } else if (normalizer_) {
      EncodeNormalized(normalizer_(stretch.text), at_start, parse_special, merger, ids);
    } else {
      EncodeNormalized(stretch.text, at_start, parse_special, merger, ids);
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), suffix_ids_.begin(), suffix_ids_.end());
  }
  return ids;
}

void BpeTokenizer::EncodeNormalized(std::string_view text, bool at_start, bool parse_special,
                                    BpeMerger& merger, std::vector<int32_t>& ids) const {
  for (const auto& stretch : added_in_normalized_.Split(text, parse_special)) {
    if (stretch.id >= 0) {
      ids.push_back(stretch.id);
    } else {
      EncodeStretch(stretch.text, at_start && stretch.text.data() == text.data(), merger, ids);
    }
  }
}

std::string BpeTokenizer::Decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string bytes;
  for (int32_t id : ids) {
    bytes += keep_special ? vocabulary_.RawBytes(id) : vocabulary_.TextBytes(id);
  }
  return ReplaceInvalidUtf8(bytes);
}

}  // namespace rally
