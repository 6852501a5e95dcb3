#include "actors/log_level.hpp"

#include <spdlog/details/os.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>

namespace ranvier {
namespace {

/// The log's own clock, as its lines have it; only a passing level asks for it.
std::int64_t log_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(spdlog::details::os::now().time_since_epoch()).count();
}

std::mutex guard;
std::atomic<std::int64_t> ends_at_ms{0}; ///< 0: the level has no end
spdlog::level::level_enum level_before = spdlog::level::info;

spdlog::level::level_enum level_of(const std::string& name) {
  return spdlog::level::from_str(name == "warn" ? "warning" : name);
}

} // namespace

void set_log_level(const std::string& level, std::int64_t for_ms) {
  const std::lock_guard held(guard);
  if (for_ms > 0) {
    if (ends_at_ms == 0) level_before = spdlog::get_level();
    ends_at_ms = log_now_ms() + for_ms;
  } else {
    ends_at_ms = 0;
  }
  spdlog::set_level(level_of(level));
}

bool is_log_level(const std::string& level) {
  static const std::set<std::string> known{"trace", "debug", "info", "warn", "warning", "error", "off"};
  return known.contains(level);
}

std::string log_level_now() {
  end_log_level_in_time();
  const auto name = spdlog::level::to_string_view(spdlog::get_level());
  const std::string text(name.data(), name.size());
  return text == "warning" ? "warn" : text;
}

bool end_log_level_in_time() {
  const auto end = ends_at_ms.load();
  if (end == 0 || log_now_ms() < end) return false;
  const std::lock_guard held(guard);
  if (ends_at_ms != end) return false; // somebody else was quicker
  ends_at_ms = 0;
  spdlog::set_level(level_before);
  return true;
}

} // namespace ranvier
