#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <mutex>

namespace ranvier {

/// How our transactions of the last minute went, for `ranvier status`. Any thread; bounded, newest kept.
class recent_rates {
public:
  void add(std::int64_t now_ms, bool ok, std::int64_t took_ms);
  /// {"transactions_ok", "transactions_failed", "half_ms", "p99_ms"}: the times are those of the ones that went well.
  nlohmann::json view(std::int64_t now_ms) const;

private:
  static constexpr std::int64_t window_ms = 60'000;
  static constexpr std::size_t most = 20'000;
  struct one {
    std::int64_t at_ms, took_ms;
    bool ok;
  };
  mutable std::mutex mutex_;
  std::deque<one> list_;
};

} // namespace ranvier
