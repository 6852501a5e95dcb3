// The host listener on HTTP threads.
#include "actors/host_api.hpp"

#include "actors/feed_session.hpp"
#include "actors/tokens.hpp"
#include "messages/event.hpp"
#include "messages/large_numbers.hpp"

namespace ranvier {
namespace {

constexpr std::size_t feed_bytes = 100u << 20;
constexpr std::size_t small_body = 64 * 1024;
constexpr std::size_t event_body = 1u << 20;
constexpr std::size_t keys_body = 8u << 20;
constexpr std::size_t max_event_bytes = 65'536; ///< E9

std::string room_version_sentence(std::string_view given) {
  std::string out = "the room version '" + std::string(given) + "' isn't known; known are";
  for (const auto& version : known_room_versions())
    out += " " + version;
  return out;
}

} // namespace

health_answer answer_health(std::string_view name, const ingress_parts& parts) {
  if (name == "healthz") return {200, R"({"healthy":true})"};
  if (name == "readyz") {
    const auto [ready, reason] = parts.ready->get();
    if (ready) return {200, R"({"ready":true})"};
    return {503, error_body("M_RANVIER_NOT_READY", reason)};
  }
  if (name == "metrics") return {200, parts.metrics ? parts.metrics() : std::string(), "text/plain; version=0.0.4"};
  return {};
}

host_front::host_front(ingress_parts parts, ingress_actor actor)
    : parts_(std::move(parts))
    , actor_(std::move(actor)) {
  for (const auto* name : {"healthz", "readyz", "metrics"})
    router_.add("GET", "/" + std::string(name), name);
  const std::string base = "/_ranvier/v1/";
  router_.add("POST", base + "feed", "feed");
  router_.add("GET", base + "feed/position", "feed_position");
  router_.add("GET", base + "stream", "stream");
  router_.add("POST", base + "events/sign", "sign");
  router_.add("GET", base + "rooms/{room_id}", "room");
  router_.add("GET", base + "rooms/{room_id}/state", "room_state");
  router_.add("POST", base + "rooms/{room_id}/join", "join");
  router_.add("POST", base + "rooms/{room_id}/partial_join/retry", "partial_join_retry");
  router_.add("POST", base + "rooms/{room_id}/partial_join/abandon", "partial_join_abandon");
  router_.add("POST", base + "requests", "request");
  router_.add("POST", base + "keys/query", "keys_query");
  router_.add("POST", base + "keys/claim", "keys_claim");
  router_.add("GET", base + "one_time_keys/counts", "one_time_key_counts");
  router_.add("GET", base + "device_lists/changes", "device_list_changes");
}

bool host_front::has_token(const std::shared_ptr<http_exchange>& exchange) const {
  const auto given = bearer_token(exchange->header("Authorization"));
  if (given.empty())
    exchange->respond_error(401, "M_MISSING_TOKEN",
                            "send 'Authorization: Bearer <token>'; it is in <data_dir>/host_token");
  else if (!same_secret(given, parts_.host_token))
    exchange->respond_error(401, "M_UNKNOWN_TOKEN", "this is not the token in <data_dir>/host_token");
  return !exchange->answered();
}

body_plan host_front::headers_in(const std::shared_ptr<http_exchange>& exchange) {
  exchange->route = router_.match(exchange->method, exchange->target);
  const auto& route = exchange->route;
  if (exchange->target.starts_with("/_ranvier/") && !has_token(exchange)) return {};
  if (route.status == 404) exchange->respond_error(404, "M_UNRECOGNIZED", "there is no such endpoint here");
  else if (route.status == 405)
    exchange->respond_error(405, "M_UNRECOGNIZED", "this endpoint takes " + route.allowed, {{"Allow", route.allowed}});
  else if (route.status == 400)
    exchange->respond_error(400, "M_INVALID_PARAM", "a percent escape in the path or query is broken");
  if (exchange->answered()) return {};
  if (route.name == "feed" && parts_.ready && parts_.ready->draining()) {
    exchange->respond_error(503, "M_RANVIER_NOT_READY",
                            "the engine is being drained; feed this again after its restart", {{"Retry-After", "10"}});
    return {};
  }
  if (route.name == "feed")
    return {feed_bytes, std::make_shared<feed_session>(exchange, actor_, parts_.settings->server_name)};
  if (route.name == "sign") return {event_body, nullptr};
  if (route.name == "request") return {static_cast<std::size_t>(parts_.settings->limits.inbound_body_bytes), nullptr};
  if (route.name == "keys_query" || route.name == "keys_claim") return {keys_body, nullptr};
  return {small_body, nullptr};
}

void host_front::request_in(std::shared_ptr<http_exchange> exchange) {
  const auto& name = exchange->route.name;
  if (const auto health = answer_health(name, parts_); health.status != 404)
    return exchange->respond(health.status, health.body, {{"Content-Type", health.content_type}});
  if (name == "sign") return sign(*exchange);
  incoming in;
  in.exchange = exchange;
  const bool about_partial = name.starts_with("partial_join_") && !exchange->body.empty();
  if (name == "request" || name == "keys_query" || name == "keys_claim" || name == "join" || about_partial) {
    try {
      in.document = std::make_shared<json_document>(exchange->body);
    } catch (const json_problem& problem) {
      return exchange->respond_error(400, problem.is_json ? "M_BAD_JSON" : "M_NOT_JSON", problem.what());
    }
  }
  caf::anon_send(actor_, make_local(std::move(in)));
}

void host_front::sign(http_exchange& exchange) const {
  try {
    const json_document document(exchange.body);
    const auto version = string_member(document.root(), "room_version");
    simdjson::dom::element event;
    if (!version || document.root()["event"].get(event) || !event.is_object())
      return exchange.respond_error(400, "M_BAD_JSON", "the body needs room_version (a string) and event (an object)");
    const auto rules = rules_of(*version);
    if (!rules) return exchange.respond_error(400, "M_UNSUPPORTED_ROOM_VERSION", room_version_sentence(*version));
    for (const auto* text : {"type", "sender"})
      if (!string_member(event, text))
        return exchange.respond_error(400, "M_BAD_JSON", std::string("the event needs ") + text + " (a string)");
    if (simdjson::dom::object content; event["content"].get(content))
      return exchange.respond_error(400, "M_BAD_JSON", "the event needs content (an object)");
    if (rules->event_id != room_version_rules::id_form::given && event["event_id"].error() == simdjson::SUCCESS)
      return exchange.respond_error(400, "M_BAD_JSON",
                                    "events of room version " + std::string(*version) +
                                        " have no event_id member: the id is computed");
    if (with_large_numbers_as_doubles(exchange.body) != exchange.body)
      return exchange.respond_error(400, "M_BAD_JSON", "a number beyond 64 bits can't be signed unchanged");
    const auto done =
        sign_event(canonical_json(event, rules->number_rule), *rules, parts_.settings->server_name, *parts_.key);
    if (done.event.size() > max_event_bytes)
      return exchange.respond_error(413, "M_TOO_LARGE",
                                    "the signed event has " + std::to_string(done.event.size()) +
                                        " bytes; rooms take at most 65536");
    // Whoever gets it judges it so; it is better said now than by every server of the room.
    const json_document signed_document(done.event);
    const auto shape = look_at_pdu(signed_document.root(), rules);
    if (!shape.ok) return exchange.respond_error(400, "M_BAD_JSON", shape.problem);
    exchange.respond(200, R"({"event_id":)" + json_string(done.event_id) + R"(,"event":)" + done.event + "}");
  } catch (const json_problem& problem) {
    exchange.respond_error(400, problem.is_json ? "M_BAD_JSON" : "M_NOT_JSON", problem.what());
  }
}

} // namespace ranvier
