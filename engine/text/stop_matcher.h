// Finds stop strings in output that comes in chunks, over bytes, whatever the chunks are
// (Aho and Corasick, "Efficient String Matching", 1975).
#ifndef RALLY_ENGINE_TEXT_STOP_MATCHER_H_
#define RALLY_ENGINE_TEXT_STOP_MATCHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rally {

// One automaton a request, read-only after construction and so shared freely; where a stream
// stands in it is a State, which is copied. Advance costs O(1) a byte and allocates nothing.
//
// The way to use it: append a token's bytes to the output, Advance over them, and let
// `output size - held_bytes(state)` bytes go. A match stands at
// [output size before + match_begin, output size before + match_end).
class StopMatcher {
 public:
  // The longest tail of what was read that is the beginning of a stop string. The default is the
  // beginning of a text.
  class State {
   public:
    bool operator==(const State&) const = default;

   private:
    friend class StopMatcher;
    int32_t node_ = 0;
  };

  struct Result {
    State next;
    bool matched = false;
    int32_t string_index = -1;  // of equal strings the first
    // Offsets from the beginning of the chunk; a match that began in an earlier one has a negative
    // `match_begin`. `match_end` is in [1, chunk size].
    int64_t match_begin = 0;
    int64_t match_end = 0;
  };

  // Empty strings never match. The caller has checked their number and length: the automaton
  // takes about (total bytes) x (distinct bytes) x 4 bytes of memory.
  explicit StopMatcher(std::span<const std::string> stop_strings);

  // Reads `bytes` up to the end of the first match: the one that ends earliest, and of those the
  // longest, which begins earliest. `next` is the state there, so a caller that must not stop yet
  // goes on with the rest, bytes.substr(match_end); later matches may overlap the one passed over.
  Result Advance(State state, std::string_view bytes) const;

  // How many of the last bytes read may still become part of a stop string: exactly these are to
  // be held back. After a match that is passed over it counts longer strings still possible.
  int64_t held_bytes(State state) const { return nodes_[state.node_].held_bytes; }

 private:
  struct Node {
    int32_t depth = 0;
    int32_t failure = 0;        // the node of the longest proper tail
    int32_t string_index = -1;  // the longest stop string that ends here
    int32_t string_bytes = 0;
    int32_t held_bytes = 0;
    bool has_children = false;
  };

  void AddString(std::string_view text, int32_t index);
  void LinkFailures();
  int32_t& Edge(int32_t node, int32_t byte_class) { return edges_[node * classes_ + byte_class]; }

  // Bytes in no stop string share class 0, which always leads to the root.
  std::array<int32_t, 256> class_of_byte_ = {};
  int32_t classes_ = 1;
  std::vector<Node> nodes_;
  std::vector<int32_t> edges_;  // nodes x classes
};

}  // namespace rally

#endif  // RALLY_ENGINE_TEXT_STOP_MATCHER_H_
