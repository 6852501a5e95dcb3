// GET /why: why something isn't there yet. Each answer is put together from what the destinations say of themselves and
// what the store knows.
#include "actors/admin_api.hpp"
#include "actors/admin_ask.hpp"
#include "actors/why.hpp"
#include "messages/ids.hpp"
#include "messages/joins.hpp"

#include <algorithm>
#include <set>

namespace ranvier {
namespace {

using namespace admin;
constexpr std::size_t most_named = 20; ///< servers of which it is said why; the others are counted
constexpr std::int64_t clock_slack_ms = 300'000;
constexpr int many_fail = 10;

nlohmann::json or_null(std::int64_t value) { return value == 0 ? nlohmann::json() : nlohmann::json(value); }
nlohmann::json or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

nlohmann::json suspect(const char* what, bool ok, const std::string& says) {
  return {{"what", what}, {"ok", ok}, {"says", says}};
}

} // namespace

admin_answer admin_desk::why(const std::string& subject) {
  if (subject.empty())
    return refuse(400, "M_MISSING_PARAM", "'subject' must name a server, an event id, a user or a room");
  if (subject[0] == '$') return why_event(subject);
  if (subject[0] == '@') return why_user(subject);
  if (subject[0] == '!') return why_room(subject);
  return why_destination(subject);
}

/// What else could be at fault, and isn't, or is.
nlohmann::json admin_desk::suspects(const nlohmann::json& d) {
  auto out = nlohmann::json::array();
  const auto& gate = d.at("gate");
  const bool held = d.contains("hold") && d["hold"].is_object();
  out.push_back(suspect("hold", !held, held ? "held: " + d["hold"].value("reason", "") : "no hold"));
  const auto [ready, reason] = parts_.common.ready->get();
  out.push_back(suspect("local", ready, ready ? "no local fault" : "a local fault: " + reason));
  const auto error =
      gate.contains("last_error") && gate["last_error"].is_object() ? gate["last_error"] : nlohmann::json::object();
  const bool unresolved = error.value("stage", "") == "resolve";
  out.push_back(suspect("resolver", !unresolved, unresolved ? "its name can't be resolved" : "resolver ok"));
  const auto now = parts_.common.wall_ms();
  std::int64_t ahead = 0;
  for (const auto* name : {"last_success_ms", "last_inbound_ms"})
    if (d.contains(name) && d[name].is_number()) ahead = std::max(ahead, d[name].get<std::int64_t>() - now);
  const bool clock_ok = ahead < clock_slack_ms;
  out.push_back(suspect("clock", clock_ok,
                        clock_ok ? "clock ok"
                                 : "the clock was set back: its last success lies " + std::to_string(ahead / 60'000) +
                                       " minutes ahead"));
  const auto own = ask<description>(system_, parts_.common.supervisor, describe{true});
  const auto view = own ? nlohmann::json::parse(own->json, nullptr, false) : nlohmann::json();
  const auto failing = view.is_object() && view.contains("uplink") ? view["uplink"].value("failing", 0) : 0;
  out.push_back(suspect("uplink", failing <= many_fail,
                        failing <= many_fail ? "uplink ok"
                                             : "connecting fails to " + std::to_string(failing) +
                                                   " servers: our own uplink may be at fault"));
  return out;
}

admin_answer admin_desk::why_destination(const std::string& name) {
  bool answered = false;
  const auto found = destination(name, answered);
  if (!found)
    return answered ? refuse(404, "M_NOT_FOUND",
                             "nothing is known of \"" + name +
                                 "\"; name a server, an event id ($...), a user (@...) or a room (!...)")
                    : busy();
  const auto& d = *found;
  const auto now = parts_.common.wall_ms();
  const auto& backoff = parts_.common.settings->backoff;
  cursors at{d["cursor"].value("pdu", position(0)), d["cursor"].value("device_lists", position(0)),
             d["cursor"].value("to_device", position(0))};
  auto waiting = d["pending"];
  const auto rooms =
      ask<local<rooms_page>>(system_, parts_.introspector, make_local(read_rooms{name, at, "", 100'000}));
  const auto queue = ask<local<queue_page>>(system_, parts_.introspector, make_local(read_queue{name, at, 1000}));
  if (rooms)
    waiting["rooms"] = std::count_if((*rooms)->rooms.begin(), (*rooms)->rooms.end(),
                                     [](const shared_room& one) { return one.waiting > 0; });
  if (queue) {
    std::set<std::string> users;
    for (const auto& one : (*queue)->items)
      if (one.kind == "device" || one.kind == "signing") users.insert(one.subject);
    waiting["users"] = users.size();
    waiting["let_go"] = (*queue)->let_go;
  }
  return answer_with({{"subject", name},
                      {"kind", "destination"},
                      {"because", or_null(because_of(d, now))},
                      {"next_try", next_try_of(d, backoff.first_ms, backoff.factor, backoff.max_ms, parts_.origins)},
                      {"waiting", std::move(waiting)},
                      {"not_because", suspects(d)},
                      {"you_can", advice_for(d)},
                      {"destination", d}});
}

/// What hinders each of these servers; at most most_named of them.
nlohmann::json admin_desk::reasons(const std::vector<std::string>& names) {
  auto out = nlohmann::json::array();
  for (const auto& name : names) {
    if (out.size() == most_named) break;
    bool answered = false;
    if (const auto d = destination(name, answered)) out.push_back(in_short(*d, parts_.common.wall_ms()));
    else if (!answered) break; // it is busy: the rest is counted
  }
  return out;
}

admin_answer admin_desk::why_event(const std::string& event_id) {
  const auto found = ask<local<event_trace>>(system_, parts_.introspector, make_local(trace_event{event_id}));
  if (!found) return busy();
  const auto& event = **found;
  if (!event.known)
    return refuse(404, "M_NOT_FOUND",
                  "no event " + event_id + " was fed here in the last 7 days, or it isn't one that we send");
  std::vector<std::string> waiting, has, let_go;
  for (const auto& one : event.servers)
    (one.let_go ? let_go : one.waits ? waiting : has).push_back(one.server);
  const auto total = waiting.size();
  auto reached = has;
  if (reached.size() > 1000) reached.resize(1000);
  return answer_with({{"subject", event_id},
                      {"kind", "event"},
                      {"stored", event.stored},
                      {"position", event.pos},
                      {"at_ms", event.at_ms},
                      {"room_id", or_null(event.room_id)},
                      {"type", or_null(event.type)},
                      {"sender", or_null(event.sender)},
                      {"delivered", {{"total", has.size()}, {"destinations", std::move(reached)}}},
                      {"let_go", let_go},
                      {"waiting", {{"total", total}, {"destinations", reasons(waiting)}}}});
}

admin_answer admin_desk::why_room(const std::string& room_id) {
  const auto found = ask<local<room_trace>>(system_, parts_.introspector, make_local(trace_room{room_id}));
  if (!found) return busy();
  if (!(*found)->known) return refuse(404, "M_NOT_FOUND", "nothing is known of a room " + room_id);
  auto servers = nlohmann::json::array();
  std::vector<std::string> behind;
  for (const auto& one : (*found)->servers) {
    servers.push_back({{"destination", one.server}, {"behind", one.behind}});
    if (one.behind > 0) behind.push_back(one.server);
  }
  const auto named = reasons(behind);
  for (const auto& reason : named)
    for (auto& one : servers)
      if (one["destination"] == reason["destination"]) one.update(reason);
  nlohmann::json join;
  if ((*found)->partial) {
    const auto joins = ask<description>(system_, parts_.common.supervisor, make_local(describe_joins{room_id}));
    const auto all = joins ? nlohmann::json::parse(joins->json, nullptr, false) : nlohmann::json();
    if (all.is_object() && all.contains("partial_joins") && !all["partial_joins"].empty())
      join = all["partial_joins"][0];
  }
  return answer_with({{"subject", room_id},
                      {"kind", "room"},
                      {"version", or_null((*found)->version)},
                      {"partial_join", join},
                      {"servers", std::move(servers)}});
}

admin_answer admin_desk::why_user(const std::string& user) {
  if (!is_user_id(user)) return refuse(400, "M_INVALID_PARAM", "\"" + user + "\" is no user id");
  const auto found = ask<local<user_trace>>(system_, parts_.introspector, make_local(trace_user{user}));
  if (!found) return busy();
  const auto& one = **found;
  if (!one.known)
    return refuse(404, "M_NOT_FOUND",
                  user + (one.ours ? " is a user of this server of whom no device and no room was fed"
                                   : " shares no room with this server: nothing is kept of it"));
  nlohmann::json out{{"subject", user},
                     {"kind", "user"},
                     {"ours", one.ours},
                     {"rooms", one.rooms},
                     {"partial_rooms", one.partial_rooms}};
  if (one.ours) {
    out["version"] = one.version;
    out["delivered"] = {{"total", one.servers - one.lacking_total}};
    out["waiting"] = {{"total", one.lacking_total}, {"destinations", reasons(one.lacking)}};
    return answer_with(out);
  }
  const auto state = one.too_large ? "too large" : one.stale ? "stale" : one.held ? "fresh" : "not fetched";
  out["list"] = {{"state", state},
                 {"tracked", one.tracked},
                 {"cause", or_null(one.cause)},
                 {"problem", or_null(one.problem)},
                 {"since_ms", or_null(one.since_ms)},
                 {"failures", one.failures},
                 {"next_attempt_ms", or_null(one.next_attempt_ms)},
                 {"kept_updates", one.kept_updates}};
  const auto server = reasons({one.server});
  out["server"] = server.empty() ? nlohmann::json{{"destination", one.server}} : server[0];
  return answer_with(out);
}

} // namespace ranvier
