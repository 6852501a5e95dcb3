#pragma once
#include <cstdint>

namespace ranvier {

/// Lets so many log lines a minute through and counts the rest, so that a peer can't fill the log (B100).
class log_budget {
public:
  explicit log_budget(int per_minute = 5)
      : per_minute_(per_minute) {}

  bool allow(std::int64_t now_ms) {
    if (now_ms - began_ms_ >= 60'000 || now_ms < began_ms_) {
      began_ms_ = now_ms;
      used_ = 0;
    }
    if (used_ >= per_minute_) {
      ++suppressed_;
      return false;
    }
    ++used_;
    return true;
  }
  /// How many lines were held back since it was asked last.
  std::uint64_t suppressed() {
    const auto n = suppressed_;
    suppressed_ = 0;
    return n;
  }

private:
  int per_minute_, used_ = 0;
  std::int64_t began_ms_ = -60'000;
  std::uint64_t suppressed_ = 0;
};

} // namespace ranvier
