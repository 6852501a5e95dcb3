#include "actors/log.hpp"

#include "actors/happenings.hpp"
#include "actors/log_level.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>

namespace ranvier {
namespace {
std::atomic<bool> as_json{false};

/// For GET /events, whatever level the log shows.
void publish(spdlog::level::level_enum level, std::string_view slug, const log_fields& fields) {
  happening one;
  const auto name = spdlog::level::to_string_view(level);
  one.level.assign(name.data(), name.size());
  one.slug = slug;
  for (const auto& [key, value] : fields)
    one.fields.emplace_back(key, value);
  happenings::of_process().add(std::move(one));
}

bool plain(const std::string& text) { return !text.empty() && text.find_first_of(" \"\n\t=") == std::string::npos; }
} // namespace

void log_line(spdlog::level::level_enum level, std::string_view slug, const log_fields& fields) {
  if (end_log_level_in_time()) log_info("log_level_ended", {{"level", log_level_now()}});
  if (level >= spdlog::level::info) publish(level, slug, fields);
  if (!spdlog::should_log(level)) return;
  if (as_json) {
    nlohmann::json line{{"event", slug}};
    for (const auto& [key, value] : fields)
      line[std::string(key)] = value;
    spdlog::log(level, "{}", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  std::string line(slug);
  for (const auto& [key, value] : fields) {
    line.append(" ").append(key).append("=");
    line += plain(value) ? value : nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  spdlog::log(level, "{}", line);
}

void start_logging(const std::string& level, const std::string& format) {
  as_json = format == "json";
  auto logger = std::make_shared<spdlog::logger>("ranvier", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(as_json ? R"({"at":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","line":%v})"
                              : "%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
  spdlog::set_default_logger(std::move(logger));
}

} // namespace ranvier
