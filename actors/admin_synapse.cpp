// The read-only calls of Synapse's federation admin API, and its reset of a connection, in Synapse's shapes: scripts
// that were written for it go on working. Positions of our log stand for its stream orderings.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <map>

namespace ranvier {
namespace {

using namespace admin;
using nlohmann::json;
constexpr long long default_listed = 100, most_listed = 1000;
constexpr std::size_t most_rooms = 100'000;

/// What a destination calls itself and how it is ordered there, and here.
const std::map<std::string, std::string>& orders() {
  static const std::map<std::string, std::string> known{{"destination", "destination"},
                                                        {"retry_last_ts", "next_attempt_ms"},
                                                        {"retry_interval", "interval_ms"},
                                                        {"failure_ts", "failing_since_ms"},
                                                        {"last_successful_stream_ordering", "cursor"}};
  return known;
}

struct paging {
  long long from = 0, limit = default_listed;
  bool backwards = false;
  std::string problem;
};

paging paging_of(const admin_call& in) {
  paging out;
  const auto number = [&](const char* name, long long& into) {
    const auto given = in.parameter(name);
    if (given.empty()) return;
    const auto read = parse_integer(given);
    if (read && *read >= 0) into = *read;
    else out.problem = std::string("Query parameter ") + name + " must be a string representing a positive integer.";
  };
  number("from", out.from);
  number("limit", out.limit);
  const auto dir = in.parameter("dir");
  if (!dir.empty() && dir != "f" && dir != "b") out.problem = "Query parameter dir must be one of ['b', 'f']";
  out.backwards = dir == "b";
  out.limit = std::min(out.limit, most_listed);
  return out;
}

json shape_of(const json& d) {
  const auto& gate = d["gate"];
  const auto number = [](const json& object, const char* key) {
    return object.contains(key) && object[key].is_number() ? object[key].get<std::int64_t>() : std::int64_t(0);
  };
  const auto interval = number(gate, "interval_ms"), next = number(gate, "next_attempt_ms");
  const auto since = number(gate, "failing_since_ms"), cursor = number(d["cursor"], "pdu");
  return {{"destination", d["destination"]},
          {"retry_last_ts", next > interval ? next - interval : 0},
          {"retry_interval", next > 0 ? interval : 0},
          {"failure_ts", since > 0 ? json(since) : json()},
          {"last_successful_stream_ordering", cursor > 0 ? json(cursor) : json()}};
}

admin_answer unknown() { return refuse(404, "M_NOT_FOUND", "Unknown destination"); }

} // namespace

void admin_desk::add_synapse_routes() {
  const std::string base = "/_synapse/admin/v1/federation/destinations";
  router_.add("GET", base, "synapse_destinations");
  router_.add("GET", base + "/{name}", "synapse_destination");
  router_.add("GET", base + "/{name}/rooms", "synapse_rooms");
  router_.add("POST", base + "/{name}/reset_connection", "reset_connection");
}

std::optional<admin_answer> admin_desk::as_synapse(const call& in) {
  const auto& name = in.route.name;
  if (name == "synapse_destinations") return synapse_destinations(in);
  if (name != "synapse_destination" && name != "synapse_rooms" && name != "reset_connection") return {};
  const auto& server = in.route.segments.at("name");
  bool answered = false;
  const auto d = destination(server, answered);
  if (!d) return answered ? unknown() : busy();
  if (name == "synapse_destination") return answer_with(shape_of(*d));
  if (name == "synapse_rooms") return synapse_rooms(in, *d);
  if (shape_of(*d)["failure_ts"].is_null())
    return refuse(400, "M_UNKNOWN", "The retry timing does not need to be reset for this destination.");
  const auto outcome = ask<done>(system_, parts_.common.supervisor, operate{server, "reset", "", in.who, 0});
  if (!outcome) return busy();
  if (!outcome->ok) return refuse(409, "M_UNKNOWN", outcome->problem);
  return answer_with(json::object());
}

admin_answer admin_desk::synapse_destinations(const call& in) {
  const auto pages = paging_of(in);
  if (!pages.problem.empty()) return refuse(400, "M_INVALID_PARAM", pages.problem);
  auto order = in.parameter("order_by");
  if (order.empty()) order = "destination";
  if (!orders().contains(order)) {
    std::string all;
    for (const auto& [one, ours] : orders())
      all += (all.empty() ? "'" : ", '") + one + "'";
    return refuse(400, "M_INVALID_PARAM", "Query parameter 'order_by' must be one of [" + all + "]");
  }
  list_view wanted;
  wanted.text = in.parameter("destination");
  wanted.order_by = orders().at(order);
  wanted.direction = pages.backwards ? "desc" : "asc";
  wanted.from = std::to_string(pages.from);
  wanted.limit = static_cast<std::size_t>(std::max(1LL, pages.limit));
  const auto got = ask<description>(system_, parts_.common.supervisor, make_local(std::move(wanted)));
  const auto all = got ? json::parse(got->json, nullptr, false) : json();
  if (!all.is_object()) return busy();
  auto list = json::array();
  if (pages.limit > 0)
    for (const auto& d : all["destinations"])
      list.push_back(shape_of(d));
  const auto total = all.value("total", 0LL), end = pages.from + static_cast<long long>(list.size());
  json answer{{"destinations", std::move(list)}, {"total", total}};
  if (end < total) answer["next_token"] = std::to_string(end);
  return answer_with(answer);
}

admin_answer admin_desk::synapse_rooms(const call& in, const nlohmann::json& d) {
  const auto pages = paging_of(in);
  if (!pages.problem.empty()) return refuse(400, "M_INVALID_PARAM", pages.problem);
  const auto name = d["destination"].get<std::string>();
  const cursors at{d["cursor"].value("pdu", position(0)), 0, 0};
  const auto found =
      ask<local<rooms_page>>(system_, parts_.introspector, make_local(read_rooms{name, at, "", most_rooms}));
  if (!found) return busy();
  auto all = (*found)->rooms;
  std::erase_if(all, [](const shared_room& one) { return !one.shared; });
  if (pages.backwards) std::reverse(all.begin(), all.end());
  auto list = json::array();
  const auto total = static_cast<long long>(all.size()), end = std::min(total, pages.from + pages.limit);
  for (auto i = pages.from; i < end; ++i)
    list.push_back({{"room_id", all[std::size_t(i)].room_id}, {"stream_ordering", all[std::size_t(i)].latest}});
  json answer{{"rooms", std::move(list)}, {"total", total}};
  if (end < total) answer["next_token"] = std::to_string(end);
  return answer_with(answer);
}

} // namespace ranvier
