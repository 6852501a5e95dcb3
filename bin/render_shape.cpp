// What waits, by age: a table of numbers with the total on top.
#include "bin/render.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using nlohmann::json;

std::string bound_text(std::int64_t ms) { return ms == 604'800'000 ? "1w" : span_text(ms); }

std::vector<std::int64_t> counts_in(const json& row) {
  std::vector<std::int64_t> out{number_in(row, "total")};
  if (const auto counts = row.find("counts"); counts != row.end() && counts->is_array())
    for (const auto& one : *counts)
      out.push_back(one.is_number() ? one.get<std::int64_t>() : 0);
  return out;
}

std::string right(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, width_of(text)), ' ') + text;
}

} // namespace

std::string shape_text(const json& answer, const screen& on) {
  std::vector<std::string> titles{"total"};
  if (const auto bounds = answer.find("bounds_ms"); bounds != answer.end() && bounds->is_array())
    for (const auto& bound : *bounds)
      titles.push_back(bound_text(bound.is_number() ? bound.get<std::int64_t>() : 0));
  titles.push_back(titles.size() > 1 ? titles.back() + '+' : "");
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> lines{
      {"TOTAL", counts_in(object_in(answer, "total"))}};
  if (const auto rows = answer.find("destinations"); rows != answer.end() && rows->is_array())
    for (const auto& row : *rows)
      lines.emplace_back(text_in(row, "destination"), counts_in(row));
  std::vector<std::size_t> widths;
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    widths.push_back(width_of(titles[i]));
    for (const auto& [name, counts] : lines)
      if (i < counts.size()) widths[i] = std::max(widths[i], std::to_string(counts[i]).size());
    numbers += widths[i] + 2;
  }
  std::size_t names = 0;
  for (const auto& [name, counts] : lines)
    names = std::max(names, width_of(name));
  if (on.columns > numbers + 12) names = std::min(names, on.columns - numbers);
  std::string head(names, ' ');
  for (std::size_t i = 0; i < titles.size(); ++i)
    head += "  " + right(titles[i], widths[i]);
  std::string out = painted(head, tone::faint, on) + '\n';
  for (const auto& [name, counts] : lines) {
    const auto shown = cut(name, names);
    out += painted(shown, name == "TOTAL" ? tone::strong : tone::plain, on);
    out += std::string(names - width_of(shown), ' ');
    for (std::size_t i = 0; i < titles.size(); ++i)
      out += "  " + right(i < counts.size() ? std::to_string(counts[i]) : "0", widths[i]);
    out += '\n';
  }
  if (const auto whole = answer.find("whole"); whole != answer.end() && *whole == false)
    out += "(there was no time to count all of them)\n";
  return out;
}

} // namespace ranvier
