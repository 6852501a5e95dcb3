// What servers refuse and was set aside, as an operator sees it, sends it again or lets it go (API section 5).
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace admin;
constexpr long long default_listed = 100, most_listed = 1000;

} // namespace

void admin_desk::add_quarantine_routes() {
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("GET", base + "quarantine", "quarantine");
  router_.add("POST", base + "quarantine/{id}/retry", "quarantine_retry");
  router_.add("DELETE", base + "quarantine/{id}", "quarantine_drop");
}

/// Oldest first.
admin_answer admin_desk::list_quarantine(const call& in) {
  const auto number = [&in](const char* name, long long fallback) {
    const auto given = in.parameter(name);
    return given.empty() ? std::optional<long long>(fallback) : parse_integer(given);
  };
  const auto limit = number("limit", default_listed), from = number("from", 0);
  if (!limit || *limit < 1) return refuse(400, "M_INVALID_PARAM", "'limit' must be an integer from 1 to 1000");
  if (!from || *from < 0) return refuse(400, "M_INVALID_PARAM", "'from' must be the 'next' of an earlier page");
  const auto rows =
      ask<local<quarantine_rows>>(system_, parts_.common.reader(), make_local(ranvier::list_quarantine{}));
  if (!rows) return busy();
  const auto& all = (*rows)->list;
  const auto begin = std::min(std::size_t(*from), all.size());
  const auto end = std::min(all.size(), begin + std::size_t(std::min(*limit, most_listed)));
  auto list = nlohmann::json::array();
  for (auto i = begin; i < end; ++i)
    list.push_back({{"id", all[i].row},
                    {"destination", all[i].destination},
                    {"item", all[i].name},
                    {"kind", to_string(all[i].kind)},
                    {"since_ms", all[i].since_ms},
                    {"status", all[i].status},
                    {"message", all[i].message}});
  nlohmann::json answer{{"quarantine", std::move(list)}, {"total", all.size()}};
  answer["next"] = end < all.size() ? nlohmann::json(std::to_string(end)) : nlohmann::json();
  return answer_with(answer);
}

admin_answer admin_desk::change_quarantine(const call& in, bool retry) {
  const auto& id = in.route.segments.at("id");
  const auto row = parse_integer(id);
  const auto missing = refuse(404, "M_NOT_FOUND", "there is no item " + id + " in the quarantine");
  if (!row) return missing;
  const auto changed = ask<local<quarantine_changed>>(system_, parts_.common.ledger,
                                                      make_local(ranvier::change_quarantine{*row, retry}));
  if (!changed) return busy();
  const auto& what = **changed;
  if (!what.ok) return refuse(503, "M_UNKNOWN", "it could not be stored: " + what.problem);
  if (!what.known) return missing;
  nlohmann::json answer{{"ok", true}, {"done", retry ? "retry" : "drop"}, {"id", *row}};
  answer["destination"] = what.row.destination;
  answer["item"] = what.row.name;
  if (retry) {
    // It is stored that it goes again; if the destination can't be told now, it reads it when its gate opens.
    const auto told =
        ask<done>(system_, parts_.common.supervisor, operate{what.row.destination, "send_refused", "", in.who});
    if (told && !told->ok) answer["waits_because"] = told->problem;
  }
  return answer_with(answer);
}

} // namespace ranvier
