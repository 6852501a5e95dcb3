// Device lists that must be fetched, as an operator sees them and asks for them (API section 5).
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace ranvier {
namespace {

using namespace admin;
constexpr std::int64_t fetch_within_ms = 1'200; ///< then it goes on without us
constexpr long long default_listed = 100, most_listed = 1000;

nlohmann::json or_null(std::int64_t value) { return value == 0 ? nlohmann::json() : nlohmann::json(value); }
nlohmann::json or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

/// A parameter that is a whole number from `least`; nothing if it is something else.
std::optional<long long> number_of(const route_match& route, const char* name, long long fallback, long long least) {
  const auto found = route.query.find(name);
  if (found == route.query.end() || found->second.empty()) return fallback;
  const auto number = parse_integer(found->second);
  if (!number || *number < least) return {};
  return *number;
}

} // namespace

/// Oldest first. Whoever doesn't wait by itself waits for its server: then that one's next attempt is shown.
admin_answer admin_desk::list_stale_users(const route_match& route) {
  const auto limit = number_of(route, "limit", default_listed, 1), from = number_of(route, "from", 0, 0);
  if (!limit) return refuse(400, "M_INVALID_PARAM", "'limit' must be an integer from 1 to 1000");
  if (!from) return refuse(400, "M_INVALID_PARAM", "'from' must be the 'next' of an earlier page");
  const auto reader = parts_.common.reader();
  auto stale = ask<local<stale_users>>(system_, reader, make_local(list_stale{}));
  if (!stale) return busy();
  auto all = (*stale)->list;
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.since_ms < b.since_ms; });
  std::map<std::string, lane_row> closed;
  if (!all.empty())
    if (auto rows = ask<local<destination_rows>>(system_, reader, make_local(ranvier::list_destinations{})))
      for (const auto& row : (*rows)->rows)
        if (row.gate.pull.closed) closed[row.name] = row.gate.pull;
  const auto begin = std::min<std::size_t>(std::size_t(*from), all.size());
  const auto end = std::min(all.size(), begin + std::size_t(std::min(*limit, most_listed)));
  auto list = nlohmann::json::array();
  for (auto i = begin; i < end; ++i) {
    const auto& one = all[i];
    auto next_ms = one.next_attempt_ms;
    auto problem = one.problem;
    if (const auto gate = closed.find(one.server); gate != closed.end()) {
      next_ms = std::max(next_ms, gate->second.next_attempt_ms);
      if (problem.empty()) problem = gate->second.last_error.message;
    }
    list.push_back({{"user_id", one.user},
                    {"destination", one.server},
                    {"since_ms", one.since_ms},
                    {"cause", one.cause},
                    {"problem", or_null(problem)},
                    {"failures", one.failures},
                    {"next_attempt_ms", or_null(next_ms)}});
  }
  nlohmann::json answer{{"stale_users", std::move(list)}, {"total", all.size()}};
  answer["next"] = end < all.size() ? nlohmann::json(std::to_string(end)) : nlohmann::json();
  return {200, text_of(answer)};
}

/// Any user whose list is tracked, or who shares a room. The mark is durable first: if the server can't be asked now,
/// the list is fetched as soon as it can.
admin_answer admin_desk::resync(const std::string& user) {
  if (!is_user_id(user) || !is_server_name(server_of(user)))
    return refuse(400, "M_INVALID_PARAM", "\"" + user + "\" is no user id");
  const std::string server(server_of(user));
  if (server == parts_.common.settings->server_name)
    return refuse(400, "M_INVALID_PARAM", user + " is a user of this server: there is nothing to fetch");
  find_known_keys question;
  question.users[user] = {""}; // no device: only how its list stands
  auto known = ask<local<known_keys>>(system_, parts_.common.reader(), make_local(std::move(question)));
  if (!known) return busy();
  const auto found = (*known)->users.find(user);
  if (found == (*known)->users.end() || found->second.state == list_state::not_shared)
    return refuse(404, "M_NOT_FOUND", user + " shares no room with this server: its device list isn't kept");
  auto marked =
      ask<done>(system_, parts_.common.ledger, make_local(mark_stale{{user}, "an operator wants it fetched"}));
  if (!marked) return busy();
  if (!marked->ok) return refuse(503, "M_UNKNOWN", "the mark could not be stored: " + marked->problem);
  const auto outcome =
      ask<refreshed>(system_, parts_.common.supervisor, refresh_lists{server, {user}, fetch_within_ms, true});
  std::string problem;
  if (!outcome) problem = "it is under way";
  else if (!outcome->server_problem.empty()) problem = outcome->server_problem;
  else if (const auto why = outcome->failed.find(user); why != outcome->failed.end()) problem = why->second;
  return {200, text_of({{"ok", true},
                        {"user_id", user},
                        {"destination", server},
                        {"fetched", problem.empty()},
                        {"problem", or_null(problem)}})};
}

} // namespace ranvier
