#include "engine/text/stop_matcher.h"

namespace rally {

StopMatcher::StopMatcher(std::span<const std::string> stop_strings) {
  for (const std::string& text : stop_strings) {
    for (char c : text) {
      int32_t& byte_class = class_of_byte_[static_cast<uint8_t>(c)];
      if (byte_class == 0) byte_class = classes_++;
    }
  }
  nodes_.emplace_back();
  edges_.resize(classes_, -1);
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    if (!stop_strings[i].empty()) AddString(stop_strings[i], static_cast<int32_t>(i));
  }
  LinkFailures();
}

void StopMatcher::AddString(std::string_view text, int32_t index) {
  int32_t node = 0;
  for (char c : text) {
    const int32_t byte_class = class_of_byte_[static_cast<uint8_t>(c)];
    if (Edge(node, byte_class) < 0) {
      nodes_[node].has_children = true;
      Edge(node, byte_class) = static_cast<int32_t>(nodes_.size());
      const int32_t depth = nodes_[node].depth + 1;
      nodes_.emplace_back().depth = depth;
      edges_.resize(edges_.size() + classes_, -1);
    }
    node = Edge(node, byte_class);
  }
  if (nodes_[node].string_index >= 0) return;
  nodes_[node].string_index = index;
  nodes_[node].string_bytes = static_cast<int32_t>(text.size());
}

// Breadth first: a node's tail is shorter than the node, so it is complete before. Missing edges
// become those of the tail, which makes the automaton deterministic.
void StopMatcher::LinkFailures() {
  std::vector<int32_t> queue = {0};
  for (size_t head = 0; head < queue.size(); ++head) {
    const int32_t at = queue[head];
    Node& node = nodes_[at];
    const Node& tail = nodes_[node.failure];
    // What ends at the node itself is longer than what ends at its tail.
    if (node.string_index < 0) {
      node.string_index = tail.string_index;
      node.string_bytes = tail.string_bytes;
    }
    node.held_bytes = node.has_children ? node.depth : tail.held_bytes;
    for (int32_t byte_class = 0; byte_class < classes_; ++byte_class) {
      const int32_t by_tail = at == 0 ? 0 : Edge(node.failure, byte_class);
      int32_t& child = Edge(at, byte_class);
      if (child < 0) {
        child = by_tail;
      } else {
        nodes_[child].failure = by_tail;
        queue.push_back(child);
      }
    }
  }
}

StopMatcher::Result StopMatcher::Advance(State state, std::string_view bytes) const {
  Result result;
  result.next = state;
  int32_t& node = result.next.node_;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int64_t byte_class = class_of_byte_[static_cast<uint8_t>(bytes[i])];
    node = edges_[static_cast<int64_t>(node) * classes_ + byte_class];
    if (nodes_[node].string_index < 0) continue;
    result.matched = true;
    result.string_index = nodes_[node].string_index;
    result.match_end = static_cast<int64_t>(i) + 1;
    result.match_begin = result.match_end - nodes_[node].string_bytes;
    break;
  }
  return result;
}

}  // namespace rally
