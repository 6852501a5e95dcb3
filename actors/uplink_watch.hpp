#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

namespace ranvier {

struct uplink_limits {
  std::int64_t silence_ms = 600'000; ///< nothing succeeded for so long
  std::size_t servers = 10;          ///< while more than so many failed to connect
};

/// Was it our own uplink that was down (DESIGN section 5)? Pure; the supervisor owns one and tells it what destinations
/// say. An outage begins with the first failure to connect after the latest answer from anyone, so an engine that had
/// nothing to send is none. Any whole answer ends it, a 503 too: it came over the uplink.
class uplink_watch {
public:
  explicit uplink_watch(uplink_limits limits = {})
      : limits_(limits) {}

  /// Connecting to this server began to fail. `wall_ms` only goes into the answer.
  void failed(const std::string& server, std::int64_t now_ms, std::int64_t wall_ms);

  /// An answer came from somebody. If that ended an outage: the wall moment since when gates closed because of it.
  std::optional<std::int64_t> reached(std::int64_t now_ms, std::int64_t wall_ms);

  std::size_t failing() const { return failed_.size(); }

private:
  uplink_limits limits_;
  std::unordered_set<std::string> failed_; ///< those after the limit aren't remembered: they decide nothing
  std::int64_t began_ms_ = 0, began_wall_ms_ = 0;
};

} // namespace ranvier
