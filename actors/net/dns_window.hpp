#pragma once
#include <cstdint>
#include <map>

namespace ranvier {

/// How many questions may be with the DNS servers at a time, so that thousands of lookups don't overflow a server's
/// socket: what it drops is asked again only after a timeout. A question that is unanswered for `young_ms` doesn't
/// count any more, so names that nobody answers for hold up nobody for long. Pure; moments are ms of one monotonic
/// clock.
class dns_window {
public:
  static constexpr std::size_t most = 250;
  static constexpr std::int64_t young_ms = 100;

  bool room(std::int64_t now) {
    while (!young_.empty() && young_.begin()->second + young_ms <= now)
      young_.erase(young_.begin());
    return young_.size() < most;
  }
  /// Its number, for `answered`.
  std::uint64_t asked(std::int64_t now) {
    young_.emplace_hint(young_.end(), ++last_, now);
    return last_;
  }
  void answered(std::uint64_t number) { young_.erase(number); }
  /// When there is room at the latest. Not before now.
  std::int64_t room_at(std::int64_t now) const {
    if (young_.size() < most) return now;
    return young_.begin()->second + young_ms > now ? young_.begin()->second + young_ms : now;
  }

private:
  std::map<std::uint64_t, std::int64_t> young_; ///< by number, so by time too
  std::uint64_t last_ = 0;
};

} // namespace ranvier
