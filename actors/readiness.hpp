#pragma once
#include <mutex>
#include <string>
#include <utility>

namespace ranvier {

/// Whether the engine is ready, and if not, why: what /readyz answers. Set by the engine, read by HTTP threads; lives
/// as long as both (held by shared_ptr).
class readiness {
public:
  void set(bool ready, std::string reason = {}) {
    std::lock_guard lock(mutex_);
    ready_ = ready;
    reason_ = std::move(reason);
  }
  /// True and an empty sentence, or false and the reason.
  std::pair<bool, std::string> get() const {
    std::lock_guard lock(mutex_);
    if (ready_ && draining_) return {false, "the engine is being drained: it takes and begins nothing new"};
    return {ready_, ready_ ? std::string() : reason_};
  }

  /// An operator drains the engine before it is stopped: nothing new is taken. Never undone.
  void drain() {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  bool draining() const {
    std::lock_guard lock(mutex_);
    return draining_;
  }
  /// The engine ends: whoever waits for something on its behalf leaves.
  void stop() {
    set(false, "the engine is stopping");
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  bool stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

private:
  mutable std::mutex mutex_;
  bool ready_ = false, draining_ = false, stopping_ = false;
  std::string reason_ = "the engine is starting";
};

} // namespace ranvier
