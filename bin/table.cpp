#include "bin/table.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace ranvier {

namespace {

std::string two_units(std::int64_t big, const char* big_name, std::int64_t small, const char* small_name) {
  char text[64];
  if (small == 0) std::snprintf(text, sizeof text, "%lld%s", static_cast<long long>(big), big_name);
  else
    std::snprintf(text, sizeof text, "%lld%s %02lld%s", static_cast<long long>(big), big_name,
                  static_cast<long long>(small), small_name);
  return text;
}

} // namespace

std::string span_text(std::int64_t ms) {
  if (ms > 0 && ms < 1'000) return std::to_string(ms) + "ms";
  auto s = std::max<std::int64_t>(ms, 0) / 1'000;
  if (s < 60) return std::to_string(s) + "s";
  if (s < 3'600) return std::to_string(s / 60) + "m";
  if (s < 86'400) return two_units(s / 3'600, "h", s % 3'600 / 60, "m");
  return two_units(s / 86'400, "d", s % 86'400 / 3'600, "h");
}

std::string bytes_text(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  int unit = 0;
  while (amount >= 1024 && unit < 4) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, amount < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
  return text;
}

std::string due_text(std::int64_t moment_ms, std::int64_t now_ms) {
  if (moment_ms <= 0) return {};
  return moment_ms <= now_ms ? "now" : "in " + span_text(moment_ms - now_ms);
}

std::string ago_text(std::int64_t moment_ms, std::int64_t now_ms) {
  return moment_ms <= 0 ? std::string() : span_text(now_ms - moment_ms) + " ago";
}

std::int64_t number_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return 0;
  auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::string text_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

const nlohmann::json& object_in(const nlohmann::json& object, const char* key) {
  static const nlohmann::json nothing = nlohmann::json::object();
  if (!object.is_object()) return nothing;
  auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : nothing;
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too (0xc2 0x80..0x9f in UTF-8).
    bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c1) ++i;
    out += c < 0x20 || c == 0x7f || c1 ? ' ' : text[i];
  }
  return out;
}

std::string column::key() const {
  std::string out;
  for (char c : title)
    out += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool sort_rows(std::vector<nlohmann::json>& rows, const std::vector<column>& columns, const std::string& by) {
  bool descending = by.starts_with('-');
  auto name = by.substr(descending ? 1 : 0);
  auto found = std::find_if(columns.begin(), columns.end(), [&](const column& c) { return c.key() == name; });
  if (found == columns.end()) return false;
  auto value = found->sorted_by;
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return descending ? value(b) < value(a) : value(a) < value(b);
  });
  return true;
}

namespace {

/// As wide as the longest text. On a screen that is too narrow the widest ones give way, as long as something can be
/// read in them; 0 for an empty column.
std::vector<std::size_t> widths_for(const std::vector<std::vector<std::string>>& lines, const screen& on) {
  constexpr std::size_t readable = 8;
  std::vector<std::size_t> widths(lines.empty() ? 0 : lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], width_of(line[i]));
  auto all = [&] { return std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1)); };
  while (on.columns > 0 && !widths.empty() && all() > on.columns) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= readable) break;
    --*widest;
  }
  return widths;
}

} // namespace

std::string table_text(const std::vector<nlohmann::json>& rows, const std::vector<const column*>& columns,
                       std::int64_t now_ms, bool headers, const screen& on) {
  std::vector<std::vector<std::string>> lines;
  if (headers) {
    lines.emplace_back();
    for (const auto* each : columns)
      lines.back().push_back(each->title);
  }
  for (const auto& row : rows) {
    lines.emplace_back();
    for (const auto* each : columns)
      lines.back().push_back(each->shown(row, now_ms));
  }
  const auto widths = widths_for(lines, on);
  std::string out;
  for (std::size_t number = 0; number < lines.size(); ++number) {
    const auto& line = lines[number];
    const bool title = headers && number == 0;
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool last = i + 1 == line.size();
      const auto shown = cut(line[i], widths[i]);
      auto how = title ? tone::faint : tone::plain;
      if (!title && columns[i]->toned) how = columns[i]->toned(rows[number - (headers ? 1 : 0)]);
      text += painted(shown, how, on);
      if (last) break;
      text += std::string(widths[i] - width_of(shown) + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  }
  return out;
}

} // namespace ranvier
