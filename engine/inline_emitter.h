// An emitter without threads: Flush delivers on the caller's thread. For the warm-up and for
// simulations.
#ifndef RALLY_ENGINE_INLINE_EMITTER_H_
#define RALLY_ENGINE_INLINE_EMITTER_H_

#include <memory>
#include <vector>

#include "engine/emitter.h"

namespace rally {

class InlineEmitter : public Emitter {
 public:
  void Notify(const std::shared_ptr<Output>& output) override {
    if (output->MarkQueued()) noted_.push_back(output);
  }
  void Flush() override {
    for (const auto& output : noted_) {
      output->ClearQueued();
      output->Pump();
    }
    noted_.clear();
  }

 private:
  std::vector<std::shared_ptr<Output>> noted_;
};

}  // namespace rally

#endif  // RALLY_ENGINE_INLINE_EMITTER_H_
