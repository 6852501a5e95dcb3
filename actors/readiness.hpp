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
    return {ready_, ready_ ? std::string() : reason_};
  }

private:
  mutable std::mutex mutex_;
  bool ready_ = false;
  std::string reason_ = "the engine is starting";
};

} // namespace ranvier
