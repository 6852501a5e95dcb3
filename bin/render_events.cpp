// One thing that happened, in a line; the configuration, key by key.
#include "bin/render.hpp"
#include "bin/words.hpp"

#include <cstdio>
#include <ctime>

namespace ranvier {

namespace {

using nlohmann::json;

std::string time_of_day(std::int64_t at_ms) {
  const auto seconds = static_cast<std::time_t>(at_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(at_ms % 1000));
  return text;
}

tone tone_of_level(const std::string& level) {
  if (level == "error" || level == "critical") return tone::bad;
  return level == "warning" ? tone::warn : level == "trace" ? tone::faint : tone::plain;
}

} // namespace

std::string event_text(const json& event, const screen& on) {
  auto slug = text_in(event, "event");
  std::string out = painted(time_of_day(number_in(event, "at_ms")), tone::faint, on) + "  " +
                    painted(slug, tone_of_level(text_in(event, "level")), on);
  out += std::string(slug.size() < 20 ? 20 - slug.size() : 0, ' ');
  for (const auto& [key, value] : event.items()) {
    if (key == "number" || key == "at_ms" || key == "level" || key == "event" || !value.is_string()) continue;
    const auto text = printable(value.get<std::string>());
    if (text.empty()) continue;
    out += "  " + (key == "destination" ? painted(text, tone::strong, on) : painted(key + '=', tone::faint, on) + text);
  }
  return out + '\n';
}

std::string config_text_of(const json& answer, bool origin, const screen& on) {
  std::string out, section;
  const auto list = answer.find("config");
  if (list == answer.end() || !list->is_array()) return out;
  for (const auto& one : *list) {
    const auto path = text_in(one, "key");
    const auto dot = path.find('.');
    const auto in = dot == std::string::npos ? std::string() : path.substr(0, dot);
    if (in != section) out += (out.empty() ? "" : "\n") + painted('[' + in + ']', tone::strong, on) + '\n';
    section = in;
    const auto from = text_in(one, "origin");
    // As it would stand in the file, so that the whole can be taken as one.
    out += (dot == std::string::npos ? path : path.substr(dot + 1)) + " = " + text_in(one, "value");
    if (origin) out += painted("  # " + (from.empty() ? std::string("not known") : from), tone::faint, on);
    out += '\n';
  }
  return out;
}

} // namespace ranvier
