#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranvier {

// What `why` says of a destination, worked out from D of API section 5. Pure: JSON in, JSON and sentences out.

/// Why what waits for it hasn't gone: the last error with its address, a hold, a list, or what is under way. Empty if
/// nothing waits, or nothing hinders it.
std::string because_of(const nlohmann::json& d, std::int64_t now_ms);

/// The same in a few words, for a list of servers: {"destination", "state", "why", "next_attempt_ms", "since_ms",
/// "stage"}.
nlohmann::json in_short(const nlohmann::json& d, std::int64_t now_ms);

/// When it is tried again, and by which rule: {"at_ms", "interval_ms", "rule", "configured"}; null while nothing is
/// waited for. `origins`: where the keys of the configuration were given.
nlohmann::json next_try_of(const nlohmann::json& d, std::int64_t first_ms, double factor, std::int64_t max_ms,
                           const std::map<std::string, std::string>& origins);

/// Commands that may help, in order.
std::vector<std::string> advice_for(const nlohmann::json& d);

} // namespace ranvier
