#pragma once
#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ranvier {

/// One log line with a stable slug and fields, as `slug key=value key="value with spaces"` (or JSON, by [log] format).
/// Never a payload or a key. INFO is for operators: one line when a peer changes state, not one for each try.
using log_fields = std::vector<std::pair<std::string_view, std::string>>;
void log_line(spdlog::level::level_enum level, std::string_view slug, const log_fields& fields);
inline void log_info(std::string_view slug, const log_fields& f) { log_line(spdlog::level::info, slug, f); }
inline void log_warning(std::string_view slug, const log_fields& f) { log_line(spdlog::level::warn, slug, f); }
inline void log_error(std::string_view slug, const log_fields& f) { log_line(spdlog::level::err, slug, f); }
inline void log_debug(std::string_view slug, const log_fields& f) { log_line(spdlog::level::debug, slug, f); }

/// Called once at start: level (trace, debug, info, warning, error) and format (text, json). Lines go to stderr.
void start_logging(const std::string& level, const std::string& format);

} // namespace ranvier
