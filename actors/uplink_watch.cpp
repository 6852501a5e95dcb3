#include "actors/uplink_watch.hpp"

#include <algorithm>

namespace ranvier {

void uplink_watch::failed(const std::string& server, std::int64_t now_ms, std::int64_t wall_ms) {
  if (failed_.empty()) {
    began_ms_ = now_ms;
    began_wall_ms_ = wall_ms;
  }
  if (failed_.size() <= limits_.servers) failed_.insert(server);
}

std::optional<std::int64_t> uplink_watch::reached(std::int64_t now_ms, std::int64_t wall_ms) {
  const auto lasted = now_ms - began_ms_;
  const bool ours = failed_.size() > limits_.servers && lasted >= limits_.silence_ms;
  failed_.clear();
  if (!ours) return std::nullopt;
  // If the wall clock was set back meanwhile, gates that closed after that bear earlier moments.
  return std::min(began_wall_ms_, wall_ms - lasted);
}

} // namespace ranvier
