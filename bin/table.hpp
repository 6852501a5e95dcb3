#pragma once
#include "bin/screen.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ranvier {

/// Time as people say it, at most two units: "8s", "12m", "5h", "3d 02h".
std::string span_text(std::int64_t ms);
/// "412 MiB".
std::string bytes_text(std::int64_t bytes);
/// "in 5h", or "now" if the moment has come; empty for a moment that isn't set.
std::string due_text(std::int64_t moment_ms, std::int64_t now_ms);
/// "3d 02h ago"; empty for a moment that isn't set.
std::string ago_text(std::int64_t moment_ms, std::int64_t now_ms);
/// A number of JSON, 0 for null and anything else.
std::int64_t number_in(const nlohmann::json& object, const char* key);
/// A text of JSON, empty for null and anything else.
std::string text_in(const nlohmann::json& object, const char* key);
/// An object of JSON, empty for null and anything else.
const nlohmann::json& object_in(const nlohmann::json& object, const char* key);
/// Control characters of others' words must not reach a terminal.
std::string printable(const std::string& text);

/// One column of a listing: what stands in it, and what it is sorted by.
struct column {
  std::string title;
  std::string (*shown)(const nlohmann::json& row, std::int64_t now_ms);
  nlohmann::json (*sorted_by)(const nlohmann::json& row); ///< numbers or texts; all of one kind
  bool wide = false;                                      ///< only in -o wide
  tone (*toned)(const nlohmann::json& row) = nullptr;     ///< its colour
  std::string key() const; ///< the name for --sort and custom=: the title in small letters, '-' for ' '
};

/// Sorts by a column's key, '-' in front turns it round; rows that are equal keep their order. False: no such column.
bool sort_rows(std::vector<nlohmann::json>& rows, const std::vector<column>& columns, const std::string& by);

/// Columns as wide as their longest text, two spaces between; the last column isn't padded. What doesn't fit the screen
/// is cut, in the widest columns first.
std::string table_text(const std::vector<nlohmann::json>& rows, const std::vector<const column*>& columns,
                       std::int64_t now_ms, bool headers, const screen& on = {});

} // namespace ranvier
