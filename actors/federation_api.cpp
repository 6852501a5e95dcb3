#include "actors/federation_api.hpp"

#include "messages/allowed_servers.hpp"
#include "messages/ids.hpp"
#include "messages/verbatim_numbers.hpp"

#include <nlohmann/json.hpp>

namespace ranvier {
namespace {

/// Ours are fetched again well before that (K10: never under an hour).
constexpr std::int64_t key_validity_ms = 24 * 3'600'000;
constexpr std::size_t small_body = 64 * 1024;
constexpr std::size_t keys_body = 1u << 20; ///< some twenty thousand users

} // namespace

std::string own_key_document(const config& settings, const signing_key& key, std::int64_t now_ms) {
  nlohmann::json current, old = nlohmann::json::object();
  current[key.key_id()] = {{"key", key.public_key()}};
  for (const auto& one : settings.also_keys)
    current[one.key_id] = {{"key", one.key}};
  for (const auto& one : settings.old_keys)
    old[one.key_id] = {{"key", one.key}, {"expired_ts", one.expired_ms}};
  const nlohmann::json document = {{"server_name", settings.server_name},
                                   {"verify_keys", current},
                                   {"old_verify_keys", old},
                                   {"valid_until_ts", now_ms + key_validity_ms}};
  return sign_json(document.dump(), settings.server_name, key);
}

federation_front::federation_front(ingress_parts parts, ingress_actor actor)
    : parts_(std::move(parts))
    , actor_(std::move(actor)) {
  router_.add("GET", "/_matrix/federation/v1/version", "version");
  for (const auto* pattern : {"/_matrix/key/v2/server", "/_matrix/key/v2/server/", "/_matrix/key/v2/server/{keyId}"})
    router_.add("GET", pattern, "keys"); // K14: the form with a key id is still asked for
  router_.add("PUT", "/_matrix/federation/v1/send/{txnId}", "send");
  router_.add("GET", "/_matrix/federation/v1/user/devices/{userId}", "user_devices");
  // What only a resident may answer (P8): refused while the room is partial.
  for (const auto* path : {"v1/make_join", "v1/make_knock"})
    router_.add("GET", "/_matrix/federation/" + std::string(path) + "/{room_id}/{subject}", "resident");
  for (const auto* path : {"v1/send_join", "v2/send_join", "v1/send_knock"})
    router_.add("PUT", "/_matrix/federation/" + std::string(path) + "/{room_id}/{subject}", "resident");
  router_.add("POST", "/_matrix/federation/v1/user/keys/query", "keys_query");
  router_.add("POST", "/_matrix/federation/v1/user/keys/claim", "keys_claim");
}

body_plan federation_front::headers_in(const std::shared_ptr<http_exchange>& exchange) {
  exchange->route = router_.match(exchange->method, exchange->target);
  const auto& route = exchange->route;
  if (route.status == 404) {
    const auto why = parts_.settings->federation.upstream.empty() ? std::string("there is no such endpoint here")
                                                                  : not_for_upstream(router_, exchange->target);
    if (!why.empty()) exchange->respond_error(404, "M_UNRECOGNIZED", why); // H4
    else exchange->route.name = "upstream";
  }
  if (route.status == 405)
    exchange->respond_error(405, "M_UNRECOGNIZED", "this endpoint takes " + route.allowed, {{"Allow", route.allowed}});
  else if (route.status == 400)
    exchange->respond_error(400, "M_INVALID_PARAM", "a percent escape in the path or query is broken");
  if (exchange->answered()) return {};
  if (route.name == "version" || route.name == "keys") return {small_body, nullptr};
  // Whoever can't be authenticated anyway needn't send its body.
  if (!may_speak(exchange, parse_x_matrix(exchange->header("Authorization")))) return {};
  if (route.name == "user_devices") return {small_body, nullptr};
  return {route.name == "send" || route.name == "upstream"
              ? static_cast<std::size_t>(parts_.settings->limits.inbound_body_bytes)
              : keys_body,
          nullptr};
}

/// A1-A5, A7: what can be judged without a key. Answers and returns false if not.
bool federation_front::may_speak(const std::shared_ptr<http_exchange>& exchange, const x_matrix& auth) const {
  if (exchange->header("Authorization").empty()) {
    exchange->respond_error(401, "M_UNAUTHORIZED", "this endpoint needs an Authorization header of scheme X-Matrix");
  } else if (!auth.problem.empty() || !is_server_name(auth.origin)) {
    exchange->respond_error(400, "M_UNAUTHORIZED",
                            "the X-Matrix header can't be used: " +
                                (auth.problem.empty() ? "its origin is not a server name" : auth.problem));
  } else if (!auth.destination.empty() && auth.destination != parts_.settings->server_name) {
    exchange->respond_error(401, "M_UNAUTHORIZED", "this request is for " + auth.destination + ", which we are not");
  } else if (auth.origin == parts_.settings->server_name) {
    exchange->respond_error(403, "M_FORBIDDEN", "a request of ours doesn't come from outside");
  } else if (server_is_denied(parts_.settings->federation.allow, parts_.settings->federation.deny, auth.origin)) {
    exchange->respond_error(403, "M_FORBIDDEN", "this server doesn't federate with " + auth.origin);
  }
  return !exchange->answered();
}

void federation_front::request_in(std::shared_ptr<http_exchange> exchange) {
  const auto& name = exchange->route.name;
  if (name == "version") {
    const nlohmann::json answer = {{"server", {{"name", "Ranvier"}, {"version", parts_.version}}}}; // H11
    return exchange->respond(200, answer.dump());
  }
  if (name == "keys") return exchange->respond(200, own_keys());
  incoming in{incoming::side::federation, exchange, nullptr, parse_x_matrix(exchange->header("Authorization")), {}};
  if (exchange->method == "GET" && exchange->body.empty())
    return static_cast<void>(caf::anon_send(actor_, make_local(std::move(in))));
  try {
    in.document = std::make_shared<json_document>(exchange->body, max_body_depth);
    // A peer may have signed numbers that we wouldn't; each PDU and EDU is judged by its own rules later (C4, B103).
    in.content = canonical_body(in.document->root());
  } catch (const json_problem& problem) {
    return exchange->respond_error(400, problem.is_json ? "M_BAD_JSON" : "M_NOT_JSON", problem.what());
  }
  if (!in.document->root().is_object())
    return exchange->respond_error(400, "M_BAD_JSON", "the body must be a JSON object"); // H1
  // These may go to the host as they came; and a signature over odd numbers is over their own spelling.
  if (name != "upstream" && name != "resident" && !has_odd_numbers(exchange->body)) exchange->body = {};
  caf::anon_send(actor_, make_local(std::move(in)));
}

std::string federation_front::own_keys() const {
  return own_key_document(*parts_.settings, *parts_.key, parts_.wall_ms());
}

} // namespace ranvier
