// The columns of listings whose rows aren't servers' own: partial joins, quarantine, holds.
#include "bin/render.hpp"
#include "bin/words.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ranvier {

namespace {

using nlohmann::json;

std::string age_of(const json& row, std::int64_t now) {
  const auto since = number_in(row, "since_ms");
  return since > 0 ? span_text(now - since) : std::string();
}
json by_age(const json& row) { return -number_in(row, "since_ms"); }

/// "2 refused, 1 unreachable", the most first.
std::string verdicts_of(const json& join) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, one] : object_in(join, "servers").items()) {
    const auto verdict = text_in(one, "verdict");
    ++counts[verdict.empty() ? "not asked yet" : verdict];
  }
  std::vector<std::pair<std::string, std::int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : order)
    parts.push_back(std::to_string(count) + ' ' + verdict);
  return joined(parts, ", ");
}

/// The first moment at which a server is asked again; 0: none is known.
std::int64_t next_attempt_of(const json& join) {
  auto first = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, one] : object_in(join, "servers").items())
    if (const auto at = number_in(one, "next_attempt_ms"); at > 0) first = std::min(first, at);
  return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

std::string users_of(const json& join) {
  std::vector<std::string> out;
  if (const auto users = join.find("users"); users != join.end() && users->is_array())
    for (const auto& one : *users)
      if (one.is_string()) out.push_back(one.get<std::string>());
  return joined(out, " ");
}

std::int64_t waiting_of(const json& d) {
  const auto& pending = object_in(d, "pending");
  return number_in(pending, "pdus") + number_in(pending, "device_lists") + number_in(pending, "to_device");
}

tone tone_of_join(const json& join) {
  return text_in(join, "state") == "fetching"  ? tone::good
         : text_in(join, "state") == "waiting" ? tone::warn
                                               : tone::plain;
}

} // namespace

const std::vector<column>& join_columns() {
  static const std::vector<column> all{
      {"ROOM", [](const json& j, std::int64_t) { return text_in(j, "room_id"); },
       [](const json& j) { return json(text_in(j, "room_id")); }},
      {"STATE", [](const json& j, std::int64_t) { return text_in(j, "state"); },
       [](const json& j) { return json(text_in(j, "state")); }, false, tone_of_join},
      {"SINCE", age_of, by_age},
      {"VIA", [](const json& j, std::int64_t) { return text_in(j, "joined_via"); },
       [](const json& j) { return json(text_in(j, "joined_via")); }},
      {"SERVERS", [](const json& j, std::int64_t) { return verdicts_of(j); },
       [](const json& j) { return json(object_in(j, "servers").size()); }},
      {"NEXT TRY", [](const json& j, std::int64_t now) { return due_text(next_attempt_of(j), now); },
       [](const json& j) { return json(next_attempt_of(j)); }},
      {"GIVEN UP", [](const json& j, std::int64_t now) { return due_text(number_in(j, "abandoned_at_ms"), now); },
       [](const json& j) { return json(number_in(j, "abandoned_at_ms")); }},
      {"USERS", [](const json& j, std::int64_t) { return users_of(j); },
       [](const json& j) { return json(users_of(j)); }, true},
      {"EVENT", [](const json& j, std::int64_t) { return text_in(j, "event_id"); },
       [](const json& j) { return json(text_in(j, "event_id")); }, true},
      {"REASON", [](const json& j, std::int64_t) { return text_in(j, "reason"); },
       [](const json& j) { return json(text_in(j, "reason")); }, true},
  };
  return all;
}

const std::vector<column>& quarantine_columns() {
  static const std::vector<column> all{
      {"ID", [](const json& row, std::int64_t) { return std::to_string(number_in(row, "id")); },
       [](const json& row) { return json(number_in(row, "id")); }},
      {"DESTINATION", [](const json& row, std::int64_t) { return text_in(row, "destination"); },
       [](const json& row) { return json(text_in(row, "destination")); }},
      {"SINCE", age_of, by_age},
      {"KIND", [](const json& row, std::int64_t) { return text_in(row, "kind"); },
       [](const json& row) { return json(text_in(row, "kind")); }},
      {"ITEM", [](const json& row, std::int64_t) { return text_in(row, "item"); },
       [](const json& row) { return json(text_in(row, "item")); }},
      {"STATUS",
       [](const json& row, std::int64_t) {
         const auto status = number_in(row, "status");
         return status ? std::to_string(status) : std::string();
       },
       [](const json& row) { return json(number_in(row, "status")); }, false, [](const json&) { return tone::bad; }},
      {"MESSAGE", [](const json& row, std::int64_t) { return text_in(row, "message"); },
       [](const json& row) { return json(text_in(row, "message")); }},
  };
  return all;
}

const std::vector<column>& hold_columns() {
  static const std::vector<column> all{
      {"DESTINATION", [](const json& d, std::int64_t) { return text_in(d, "destination"); },
       [](const json& d) { return json(text_in(d, "destination")); }},
      {"UNTIL",
       [](const json& d, std::int64_t now) {
         const auto until = number_in(object_in(d, "hold"), "until_ms");
         return until > 0 ? due_text(until, now) : std::string("released");
       },
       [](const json& d) { return json(number_in(object_in(d, "hold"), "until_ms")); }},
      {"WAITING", [](const json& d, std::int64_t) { return std::to_string(waiting_of(d)); },
       [](const json& d) { return json(waiting_of(d)); }},
      {"OLDEST",
       [](const json& d, std::int64_t) {
         const auto age = number_in(object_in(d, "pending"), "oldest_age_ms");
         return age > 0 ? span_text(age) : std::string();
       },
       [](const json& d) { return json(number_in(object_in(d, "pending"), "oldest_age_ms")); }},
      {"REASON", [](const json& d, std::int64_t) { return text_in(object_in(d, "hold"), "reason"); },
       [](const json& d) { return json(text_in(object_in(d, "hold"), "reason")); }},
  };
  return all;
}

} // namespace ranvier
