#include "actors/recent_rates.hpp"

#include <algorithm>
#include <vector>

namespace ranvier {

void recent_rates::add(std::int64_t now_ms, bool ok, std::int64_t took_ms) {
  std::lock_guard lock(mutex_);
  list_.push_back({now_ms, took_ms, ok});
  while (list_.size() > most || (!list_.empty() && list_.front().at_ms < now_ms - window_ms))
    list_.pop_front();
}

nlohmann::json recent_rates::view(std::int64_t now_ms) const {
  std::vector<std::int64_t> times;
  std::int64_t failed = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& each : list_) {
      if (each.at_ms < now_ms - window_ms) continue;
      if (each.ok) times.push_back(each.took_ms);
      else ++failed;
    }
  }
  std::sort(times.begin(), times.end());
  auto at = [&](std::size_t percent) {
    return times.empty() ? nlohmann::json() : nlohmann::json(times[(times.size() - 1) * percent / 100]);
  };
  return {{"transactions_ok", times.size()}, {"transactions_failed", failed}, {"half_ms", at(50)}, {"p99_ms", at(99)}};
}

} // namespace ranvier
