#include "actors/admin_api.hpp"

#include "actors/admin_ask.hpp"
#include "actors/admin_engine.hpp"
#include "actors/host_api.hpp"
#include "actors/tokens.hpp"
#include "actors/whole_totals.hpp"
#include "messages/ids.hpp"
#include "messages/joins.hpp"
#include "messages/signing.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

namespace ranvier {
namespace {

using namespace std::chrono_literals;
using namespace admin;
constexpr auto discovery_patience = 40s;
constexpr long long most_listed = 1000;

admin_answer pass_on(std::optional<description> got) {
  if (!got) return busy();
  return {200, std::move(got->json)};
}

} // namespace

admin_desk::admin_desk(caf::actor_system& system, admin_parts parts)
    : system_(system)
    , parts_(std::move(parts))
    , started_ms_(parts_.common.wall_ms()) {
  for (const auto* name : {"healthz", "readyz", "metrics"})
    router_.add("GET", "/" + std::string(name), name);
  const std::string base = "/_ranvier/admin/v1/";
  router_.add("GET", base + "destinations", "destinations");
  router_.add("GET", base + "destinations/{name}", "destination");
  router_.add("GET", base + "destinations/{name}/resolve", "resolve");
  for (const auto* verb : {"wake", "hold", "release", "reset"})
    router_.add("POST", base + "destinations/{name}/" + verb, verb);
  for (const auto* name : {"actors", "stats", "stale_users", "audit"})
    router_.add("GET", base + name, name);
  router_.add("GET", base + "actors/{id}", "actor");
  add_look_routes();
  add_quarantine_routes();
  add_join_routes();
  add_engine_routes(router_);
  add_run_routes();
  router_.add("POST", base + "stale_users/{user_id}/resync", "resync");
}

admin_answer admin_desk::answer(const admin_request& request) {
  call in;
  in.route = router_.match(request.method, request.target);
  if (bool given = false; !may_pass(request, given)) {
    auto refusal = given ? refuse(401, "M_UNKNOWN_TOKEN", "this is not the token in <data_dir>/admin_token")
                         : refuse(401, "M_MISSING_TOKEN",
                                  "send 'Authorization: Bearer <token>' of <data_dir>/admin_token; a browser may give "
                                  "it as the password, under any name");
    if (in.route.name == "page" || in.route.name == "live_page")
      refusal.headers.emplace_back("WWW-Authenticate", "Basic realm=\"ranvier\"");
    return refusal;
  }
  if (in.route.status == 404) return refuse(404, "M_UNRECOGNIZED", "there is no such endpoint here");
  if (in.route.status == 405) return refuse(405, "M_UNRECOGNIZED", "this endpoint takes " + in.route.allowed);
  if (in.route.status == 400) return refuse(400, "M_INVALID_PARAM", "a percent escape in the path or query is broken");
  if (!request.body.empty()) {
    in.body = nlohmann::json::parse(request.body, nullptr, false);
    if (in.body.is_discarded()) return refuse(400, "M_NOT_JSON", "the body is not JSON");
    if (!in.body.is_object()) return refuse(400, "M_BAD_JSON", "the body must be a JSON object");
  }
  in.who = request.who.empty() ? "unknown" : request.who;
  auto given = routed(in);
  if (request.method != "GET") record(in, given);
  return given;
}

/// A browser can't send a bearer token, so for looking it may be the password of Basic; never for changing something,
/// which another site could make the browser do.
bool admin_desk::may_pass(const admin_request& request, bool& given) const {
  static const std::set<std::string> open{"/healthz", "/readyz", "/metrics"};
  if (parts_.token.empty() || open.contains(request.target.substr(0, request.target.find('?')))) return true;
  std::string token(bearer_token(request.authorization));
  if (const std::string basic = "Basic "; request.method == "GET" && request.authorization.starts_with(basic))
    if (const auto pair = unbase64(request.authorization.substr(basic.size())))
      token = pair->substr(std::min(pair->size(), pair->find(':') + 1));
  given = !token.empty();
  return given && same_secret(token, parts_.token);
}

admin_answer admin_desk::routed(const call& in) {
  const auto& name = in.route.name;
  if (auto health = answer_health(name, parts_.common); health.status != 404)
    return {health.status, std::move(health.body), std::move(health.content_type)};
  if (name == "destinations") return list_destinations(in);
  if (name == "destination") return show_destination(in.route.segments.at("name"));
  if (name == "resolve") return find_route(in);
  if (name == "actors") return pass_on(ask<description>(system_, parts_.common.supervisor, make_local(list_actors{})));
  if (name == "actor") return show_actor(in.route.segments.at("id"));
  if (name == "stats") return stats();
  if (name == "stale_users") return list_stale_users(in.route);
  if (name == "audit") return list_audit(in);
  if (name == "resync") return resync(in.route.segments.at("user_id"));
  if (auto done = engine_order(in, parts_.common)) return std::move(*done);
  if (auto about_joins = joins(in)) return std::move(*about_joins);
  if (auto seen = look(in)) return std::move(*seen);
  if (name == "quarantine") return list_quarantine(in);
  if (name == "quarantine_retry" || name == "quarantine_drop") return change_quarantine(in, name == "quarantine_retry");
  if (auto ran = run(in)) return std::move(*ran);
  return act(in);
}

/// The supervisor's totals, and which engine it is that they are of.
admin_answer admin_desk::stats() {
  auto got = whole_totals(system_, parts_.common.supervisor, parts_.introspector, parts_.common.wall_ms(), patience);
  if (!got) return busy();
  auto& all = *got;
  const auto [ready, reason] = parts_.common.ready->get();
  all["server_name"] = parts_.common.settings->server_name;
  all["version"] = parts_.common.version;
  all["started_ms"] = started_ms_;
  all["ready"] = ready;
  if (!ready) all["not_ready_because"] = reason;
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(parts_.common.settings->data_dir + "/ranvier.db", missing);
  if (!missing) all["database_bytes"] = bytes;
  return {200, all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

admin_answer admin_desk::list_destinations(const call& in) {
  list_view wanted;
  wanted.state = in.parameter("state");
  wanted.text = in.parameter("q");
  wanted.order_by = in.parameter("order_by");
  wanted.direction = in.parameter("dir");
  wanted.from = in.parameter("from");
  static const std::set<std::string> states{"", "open", "closed", "probing", "held", "denied"};
  static const std::set<std::string> orders{"",
                                            "destination",
                                            "waiting",
                                            "oldest_age_ms",
                                            "consecutive_failures",
                                            "failing_since_ms",
                                            "next_attempt_ms",
                                            "interval_ms",
                                            "last_success_ms",
                                            "last_inbound_ms",
                                            "rooms",
                                            "cursor"};
  if (!states.count(wanted.state))
    return refuse(400, "M_INVALID_PARAM", "'state' must be open, closed, probing, held or denied");
  if (!orders.count(wanted.order_by))
    return refuse(400, "M_INVALID_PARAM",
                  "'order_by' must be destination, waiting, oldest_age_ms, consecutive_failures, "
                  "failing_since_ms, next_attempt_ms, interval_ms, last_success_ms, "
                  "last_inbound_ms, rooms or cursor");
  if (const auto from = parse_integer(wanted.from); !wanted.from.empty() && (!from || *from < 0))
    return refuse(400, "M_INVALID_PARAM", "'from' must be the 'next' of an earlier page");
  if (!wanted.direction.empty() && wanted.direction != "asc" && wanted.direction != "desc")
    return refuse(400, "M_INVALID_PARAM", "'dir' must be asc or desc");
  if (const auto limit = in.parameter("limit"); !limit.empty()) {
    const auto number = parse_integer(limit);
    if (!number || *number < 1) return refuse(400, "M_INVALID_PARAM", "'limit' must be an integer from 1 to 1000");
    wanted.limit = static_cast<std::size_t>(std::min(*number, most_listed));
  }
  return pass_on(ask<description>(system_, parts_.common.supervisor, make_local(std::move(wanted))));
}

admin_answer admin_desk::show_destination(const std::string& name) {
  auto got = ask<description>(system_, parts_.common.supervisor, make_local(describe_one{name}));
  if (got && got->json.empty()) return refuse(404, "M_NOT_FOUND", "nothing is known of a destination " + name);
  return pass_on(std::move(got));
}

/// Discovery of a name, with every step; `no_cache`: everything is looked up anew, and what was known is forgotten
/// (B109).
admin_answer admin_desk::find_route(const call& in) {
  const auto& name = in.route.segments.at("name");
  if (!is_server_name(name)) return refuse(400, "M_INVALID_PARAM", "\"" + name + "\" is no server name");
  const auto fresh = in.parameter("no_cache");
  if (!fresh.empty() && fresh != "true" && fresh != "false" && fresh != "1" && fresh != "0")
    return refuse(400, "M_INVALID_PARAM", "'no_cache' must be true or false");
  const auto found = ask<local<route>>(system_, parts_.resolver,
                                       make_local(resolve{name, fresh == "true" || fresh == "1"}), discovery_patience);
  if (!found) return busy();
  const route& way = **found;
  nlohmann::json out{{"destination", name}, {"ok", way.ok}, {"addresses", way.addresses}, {"steps", way.steps}};
  out["host"] = way.host_header;
  out["tls_name"] = way.tls_name;
  out["static"] = way.pinned;
  out["denied"] = way.denied;
  if (!way.ok) out["problem"] = way.problem;
  return {200, out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

admin_answer admin_desk::act(const call& in) {
  operate order;
  order.destination = in.route.segments.at("name");
  order.verb = in.route.name;
  order.who = in.who;
  if (order.verb == "hold" && !(in.body.is_object() && in.body.contains("reason")))
    return refuse(400, "M_MISSING_PARAM", "a hold needs a 'reason', for whoever finds it later");
  if (in.body.is_object()) {
    const auto reason = in.body.find("reason");
    if (reason != in.body.end() && !reason->is_null()) {
      if (!reason->is_string()) return refuse(400, "M_INVALID_PARAM", "'reason' must be a string");
      order.reason = reason->get<std::string>();
    }
    const auto lasts = in.body.find("for_ms");
    if (lasts != in.body.end() && !lasts->is_null()) {
      if (!lasts->is_number_integer() || lasts->get<std::int64_t>() < 1)
        return refuse(400, "M_INVALID_PARAM", "'for_ms' must be a positive integer, or absent for ever");
      order.until_ms = parts_.common.wall_ms() + lasts->get<std::int64_t>();
    }
  }
  if (order.verb == "hold" && order.reason.empty())
    return refuse(400, "M_BAD_JSON", "a hold needs a 'reason': whoever finds it must know why it is there");
  const auto carried_out = ask<done>(system_, parts_.common.supervisor, order);
  if (!carried_out) return busy();
  if (!carried_out->ok && carried_out->problem.starts_with("unknown destination"))
    return refuse(404, "M_NOT_FOUND", carried_out->problem);
  if (!carried_out->ok) return refuse(409, "M_RANVIER_NOT_DONE", carried_out->problem);
  return {200, nlohmann::json{{"ok", true}, {"destination", order.destination}, {"done", order.verb}}.dump()};
}

/// The entry of the listing, and what the actor itself says.
admin_answer admin_desk::show_actor(const std::string& id) {
  const auto number = parse_integer(id);
  auto listed = ask<description>(system_, parts_.common.supervisor, make_local(list_actors{}));
  if (!listed) return busy();
  const auto all = nlohmann::json::parse(listed->json, nullptr, false);
  if (number && all.is_object() && all.contains("actors"))
    for (auto entry : all["actors"]) {
      if (entry.value("id", -1LL) != *number) continue;
      std::optional<description> own;
      for (const auto& actor : parts_.actors)
        if (static_cast<long long>(actor.id()) == *number) own = ask<description>(system_, actor, describe{});
      if (!own && entry.value("kind", "") == "destination")
        own = ask<description>(system_, parts_.common.supervisor, make_local(describe_one{entry.value("name", "")}));
      if (!own && entry.value("kind", "") == "partial_join")
        own = ask<description>(system_, parts_.common.supervisor, make_local(describe_joins{entry.value("name", "")}));
      const auto state = own ? nlohmann::json::parse(own->json, nullptr, false) : nlohmann::json();
      entry["described"] = state.is_discarded() ? nlohmann::json() : state;
      return {200, entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
    }
  return refuse(404, "M_NOT_FOUND", "no actor with the id " + id + " is running");
}

} // namespace ranvier
