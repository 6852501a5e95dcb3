// What operators look at beside lists: what waits for a destination, in which rooms, how old it is (API section 5).
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/config_schema.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {
namespace {

using namespace admin;
constexpr long long default_listed = 100, most_listed = 1000;

/// `shape`'s columns: 1m, 5m, 20m, 1h, 6h, 1d, 1w, and older.
const std::vector<std::int64_t> age_bounds{60'000, 300'000, 1'200'000, 3'600'000, 21'600'000, 86'400'000, 604'800'000};

nlohmann::json or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

std::optional<std::size_t> limit_of(const admin_call& in) {
  const auto given = in.parameter("limit");
  if (given.empty()) return default_listed;
  const auto number = parse_integer(given);
  if (!number || *number < 1) return {};
  return std::size_t(std::min(*number, most_listed));
}

admin_answer bad_limit() { return refuse(400, "M_INVALID_PARAM", "'limit' must be an integer from 1 to 1000"); }
admin_answer unknown(const std::string& name) {
  return refuse(404, "M_NOT_FOUND", "nothing is known of a destination " + name);
}

cursors cursors_of(const nlohmann::json& d) {
  const auto at = d.value("cursor", nlohmann::json::object());
  return {at.value("pdu", position(0)), at.value("device_lists", position(0)), at.value("to_device", position(0))};
}

} // namespace

void admin_desk::add_look_routes() {
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("GET", "/", "page");
  router_.add("GET", base + "page", "live_page");
  router_.add("GET", base + "destinations/{name}/queue", "queue");
  router_.add("GET", base + "destinations/{name}/rooms", "rooms");
  router_.add("GET", base + "shape", "shape");
  router_.add("GET", base + "why", "why");
  router_.add("GET", base + "config", "config");
  router_.add("GET", base + "events", "events");
  router_.add("GET", base + "trace", "trace");
}

std::optional<admin_answer> admin_desk::look(const call& in) {
  const auto& name = in.route.name;
  if (name == "page") return page();
  if (name == "live_page") return live_page_stream();
  if (name == "queue") return show_queue(in);
  if (name == "rooms") return show_rooms(in);
  if (name == "shape") return show_shape(in);
  if (name == "why") return why(in.parameter("subject"));
  if (name == "config") return show_config();
  if (name == "events") return events(in, "");
  if (name == "trace") {
    const auto destination = in.parameter("destination");
    if (!is_server_name(destination))
      return refuse(400, "M_INVALID_PARAM", "'destination' must be a server name, it is \"" + destination + "\"");
    return events(in, destination);
  }
  return {};
}

/// D, or nothing: then `answered` says whether that is because nobody knows it.
std::optional<nlohmann::json> admin_desk::destination(const std::string& name, bool& answered) {
  const auto got = ask<description>(system_, parts_.common.supervisor, make_local(describe_one{name}));
  answered = got.has_value();
  if (!got || got->json.empty()) return {};
  auto d = nlohmann::json::parse(got->json, nullptr, false);
  if (!d.is_object()) return {};
  return d;
}

admin_answer admin_desk::show_queue(const call& in) {
  const auto limit = limit_of(in);
  if (!limit) return bad_limit();
  const auto& name = in.route.segments.at("name");
  bool answered = false;
  const auto d = destination(name, answered);
  if (!d) return answered ? unknown(name) : busy();
  const auto page =
      ask<local<queue_page>>(system_, parts_.introspector, make_local(read_queue{name, cursors_of(*d), *limit}));
  if (!page) return busy();
  auto list = nlohmann::json::array();
  for (const auto& one : (*page)->items)
    list.push_back({{"kind", one.kind},
                    {"position", one.pos},
                    {"room_id", or_null(one.room_id)},
                    {"subject", one.subject},
                    {"detail", or_null(one.detail)},
                    {"at_ms", one.at_ms},
                    {"bytes", one.bytes},
                    {"extra", one.extra}});
  return answer_with({{"destination", name},
                      {"queue", std::move(list)},
                      {"more", (*page)->more},
                      {"let_go", (*page)->let_go},
                      {"pending", (*d)["pending"]},
                      {"gate", (*d)["gate"]}});
}

admin_answer admin_desk::show_rooms(const call& in) {
  const auto limit = limit_of(in);
  if (!limit) return bad_limit();
  const auto& name = in.route.segments.at("name");
  bool answered = false;
  const auto d = destination(name, answered);
  if (!d) return answered ? unknown(name) : busy();
  const auto page = ask<local<rooms_page>>(system_, parts_.introspector,
                                           make_local(read_rooms{name, cursors_of(*d), in.parameter("from"), *limit}));
  if (!page) return busy();
  auto list = nlohmann::json::array();
  for (const auto& one : (*page)->rooms)
    list.push_back({{"room_id", one.room_id},
                    {"version", or_null(one.version)},
                    {"partial", one.partial},
                    {"shared", one.shared},
                    {"waiting", one.waiting}});
  const auto next = (*page)->more ? nlohmann::json((*page)->rooms.back().room_id) : nlohmann::json();
  return answer_with({{"destination", name}, {"rooms", std::move(list)}, {"next", next}});
}

/// As it is in force, in the order of the keys. No key is a secret: these stand in files of their own.
admin_answer admin_desk::show_config() {
  auto list = nlohmann::json::array();
  auto value = *parts_.common.settings; // the schema's accessors take what may be changed
  for (const auto& key : config_keys()) {
    const auto from = parts_.origins.find(key.path);
    list.push_back({{"key", key.path},
                    {"value", key.show(value)},
                    {"origin", from == parts_.origins.end() ? nlohmann::json() : nlohmann::json(from->second)}});
  }
  return answer_with({{"file", or_null(value.file)}, {"config", std::move(list)}});
}

admin_answer admin_desk::show_shape(const call& in) {
  const auto limit = limit_of(in);
  if (!limit) return bad_limit();
  const auto found = ask<local<shape_rows>>(
      system_, parts_.introspector, make_local(read_shape{in.parameter("q"), parts_.common.wall_ms(), age_bounds}));
  if (!found) return busy();
  auto rows = (*found)->rows;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.total > b.total; });
  std::vector<std::int64_t> sums(age_bounds.size() + 1);
  std::int64_t total = 0;
  auto list = nlohmann::json::array();
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += row.counts[i];
    total += row.total;
    if (list.size() < *limit)
      list.push_back({{"destination", row.destination}, {"counts", row.counts}, {"total", row.total}});
  }
  return answer_with({{"bounds_ms", age_bounds},
                      {"total", {{"counts", sums}, {"total", total}}},
                      {"destinations", std::move(list)},
                      {"rows", rows.size()},
                      {"whole", (*found)->whole}});
}

} // namespace ranvier
