#pragma once
#include <cstdint>
#include <string>

namespace ranvier {

/// What the log shows in this process. A level for a time ends by itself: the first line that anybody would log after
/// its end is judged by the level before. Thread-safe.
/// `level`: trace, debug, info, warn, warning, error or off. `for_ms` above 0: only so long.
void set_log_level(const std::string& level, std::int64_t for_ms = 0);

bool is_log_level(const std::string& level);

/// The level in force, as the configuration names it.
std::string log_level_now();

/// Ends a level whose time is over; called before each line. True if it ended just now.
bool end_log_level_in_time();

} // namespace ranvier
