// The calls by which an operator runs the engine: probing from here, and what changes more than one gate.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "messages/joins.hpp"

#include <algorithm>

namespace ranvier {

using namespace admin;
using namespace std::chrono_literals;

namespace {

constexpr auto drop_patience = 70s; ///< a transaction in flight ends first

} // namespace

void admin_desk::add_run_routes() {
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("POST", base + "destinations/{name}/probe", "probe");
  router_.add("POST", base + "destinations/{name}/drop", "drop");
  router_.add("POST", base + "actors/{id}/restart", "restart");
  router_.add("POST", base + "drain", "drain");
  add_synapse_routes();
}

std::optional<admin_answer> admin_desk::run(const call& in) {
  const auto& name = in.route.name;
  if (name == "probe") return probe(in.route.segments.at("name"));
  if (name == "drop") return drop(in);
  if (name == "restart") return restart(in);
  if (name == "drain") return drain(in);
  if (auto given = as_synapse(in)) return given;
  return {};
}

/// Counted, and unless it is a dry run let go: the cursors move, so that nothing of it is owed any more.
admin_answer admin_desk::drop(const call& in) {
  const auto& name = in.route.segments.at("name");
  const auto& body = in.body;
  const auto member = [&body](const char* key) {
    return body.is_object() && body.contains(key) ? body[key] : nlohmann::json();
  };
  const auto older = member("older_than_ms"), reason = member("reason"), dry = member("dry_run");
  if (!dry.is_null() && !dry.is_boolean()) return refuse(400, "M_INVALID_PARAM", "'dry_run' must be true or false");
  const bool only_count = dry == true;
  if (!older.is_null() && (!older.is_number_integer() || older.get<std::int64_t>() < 0))
    return refuse(400, "M_INVALID_PARAM", "'older_than_ms' must be a duration in ms, or absent for everything");
  if (!only_count && (!reason.is_string() || reason.get<std::string>().empty()))
    return refuse(400, "M_MISSING_PARAM", "a drop needs a 'reason': what it lets go never comes back");
  // A moment before anything else is "everything older than 0 ms": not the same as everything.
  const auto before_ms =
      older.is_null() ? 0 : std::max<std::int64_t>(1, parts_.common.wall_ms() - older.get<std::int64_t>());
  bool answered = false;
  const auto d = destination(name, answered);
  if (!d) return answered ? refuse(404, "M_NOT_FOUND", "nothing is known of a destination " + name) : busy();
  nlohmann::json counts;
  if (only_count) {
    const auto at = d->value("cursor", nlohmann::json::object());
    const cursors after{at.value("pdu", position(0)), at.value("device_lists", position(0)),
                        at.value("to_device", position(0))};
    const auto would =
        ask<local<drop_counts>>(system_, parts_.introspector, make_local(read_drop{name, after, before_ms}));
    if (!would) return busy();
    counts = {{"pdus", (*would)->pdus}, {"device_lists", (*would)->device_lists}, {"to_device", (*would)->to_device}};
  } else {
    operate order;
    order.destination = name;
    order.verb = "drop";
    order.reason = reason.get<std::string>();
    order.who = in.who;
    order.until_ms = before_ms;
    const auto outcome = ask<done>(system_, parts_.common.supervisor, order, drop_patience);
    if (!outcome)
      return refuse(504, "M_UNKNOWN", "a transaction to " + name + " is in flight; what waits goes when it has ended");
    if (!outcome->ok) return refuse(409, "M_RANVIER_NOT_DONE", outcome->problem);
    counts = nlohmann::json::parse(outcome->problem, nullptr, false);
  }
  return answer_with(
      {{"ok", true}, {"destination", name}, {"done", "drop"}, {"dry_run", only_count}, {"dropped", counts}});
}

/// Those whose whole state is in the store, and who may go for a moment.
admin_answer admin_desk::restart(const call& in) {
  const auto& id = in.route.segments.at("id");
  const auto number = parse_integer(id);
  const auto missing = refuse(404, "M_NOT_FOUND", "no actor with the id " + id + " is running; see ranvier actors");
  if (!number) return missing;
  const auto got = ask<description>(system_, parts_.common.supervisor, make_local(list_actors{}));
  const auto all = got ? nlohmann::json::parse(got->json, nullptr, false) : nlohmann::json();
  if (!all.is_object() || !all.contains("actors")) return busy();
  for (const auto& entry : all["actors"]) {
    if (!entry.contains("id") || entry["id"] != *number) continue;
    const auto kind = entry.value("kind", ""), name = entry.value("name", "");
    std::optional<done> outcome;
    if (kind == "destination") {
      outcome = ask<done>(system_, parts_.common.supervisor, operate{name, "restart", "", in.who, 0});
    } else if (kind == "partial_join") {
      outcome = ask<done>(system_, parts_.common.supervisor, operate_join{name, "restart", "", in.who});
    } else {
      return refuse(409, "M_RANVIER_NOT_DONE",
                    "the " + kind +
                        " can't be restarted alone: the engine doesn't live without it; restart the engine");
    }
    if (!outcome) return busy();
    if (!outcome->ok) return refuse(409, "M_RANVIER_NOT_DONE", outcome->problem);
    return answer_with({{"ok", true}, {"done", "restart"}, {"id", *number}, {"kind", kind}, {"name", name}});
  }
  return missing;
}

} // namespace ranvier
