#include "tests/simulation/world.hpp"

#include "messages/ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

// What comes of a request. The rules that it may break are in world_rules.cpp.

namespace ranvier::sim {

namespace {

constexpr std::size_t most_breaches = 20;
constexpr std::size_t longest_trace = 200'000;
constexpr std::string_view send_path = "/_matrix/federation/v1/send/";
constexpr std::string_view key_path = "/_matrix/key/v2/server";

constexpr std::string_view list_path = "/_matrix/federation/v1/user/devices/";

bool is_send(const http_call& call) { return call.uri.rfind(send_path, 0) == 0; }

http_answer status(int code, std::string type, std::string body) {
  http_answer out;
  out.status = code;
  out.content_type = std::move(type);
  out.body = shared_text(std::move(body));
  out.request_sent = true;
  return out;
}

http_answer no_answer(failure_stage stage, std::string problem) {
  http_answer out;
  out.stage = stage;
  out.problem = std::move(problem);
  out.request_sent = stage == failure_stage::answer;
  return out;
}

/// GET /_matrix/key/v2/server (K1).
std::string key_document_of(const std::string& server, const std::string& key_id, std::int64_t wall_ms) {
  const auto key = key_of(server, key_id);
  nlohmann::json document{{"server_name", server},
                          {"valid_until_ts", wall_ms + 6 * day},
                          {"verify_keys", {{key.key_id(), {{"key", key.public_key()}}}}},
                          {"old_verify_keys", nlohmann::json::object()}};
  return sign_json(document.dump(), server, key);
}

} // namespace

signing_key key_of(const std::string& server, const std::string& key_id) {
  return signing_key::from_seed(key_id.substr(key_id.find(':') + 1), sha256(server + key_id));
}

bool works(conduct how) { return how == conduct::live || how == conduct::odd; }
bool takes(conduct how) { return works(how) || how == conduct::deaf; }
bool connects(conduct how) {
  return how != conduct::no_name && how != conduct::refusing && how != conduct::unreachable &&
         how != conduct::bad_certificate;
}

std::string name_of(conduct how) {
  static const char* const names[] = {"live",   "odd",  "no name", "refusing", "unreachable", "bad certificate",
                                      "silent", "deaf", "broken",  "limiting", "parked",      "page"};
  return names[static_cast<std::size_t>(how)];
}

conduct peer::at(std::int64_t now_ms) const {
  conduct how = conduct::live;
  for (const auto& p : script)
    if (p.from_ms <= now_ms) how = p.how;
  return how;
}

std::string peer::key_id(std::int64_t now_ms) const {
  const auto changes = std::count_if(new_keys_ms.begin(), new_keys_ms.end(), [&](auto at) { return at <= now_ms; });
  return "ed25519:k" + std::to_string(changes + 1);
}

void world::breach(const std::string& sentence, const std::string& server, const std::string& event) {
  if (breaches.size() < most_breaches) breaches.push_back({sentence, server, event, now_ms_});
}

void world::note(const std::string& server, std::int64_t at_ms, const std::string& what) {
  now_ms_ = std::max(now_ms_, at_ms);
  if (traces(server) && trace.size() < longest_trace) trace.push_back({at_ms, server, what});
}

world::fate world::receive(http_call call, std::int64_t now_ms) {
  now_ms_ = now_ms;
  if (tamper && is_send(call)) tamper(call);
  const auto found = peers.find(call.destination);
  if (found == peers.end()) {
    breach("a request to " + call.destination + ", which nobody knows");
    return {no_answer(failure_stage::resolve, "unknown"), 1, false};
  }
  peer& p = found->second;
  ++p.attempts;
  conduct how = p.at(now_ms);
  if (bad && now_ms >= bad->from_ms && now_ms < bad->to_ms && works(how) &&
      static_cast<int>(random() % 100) < bad->percent)
    how = static_cast<conduct>(static_cast<int>(conduct::no_name) + random() % 10);
  if (traces(p.name))
    note(p.name, now_ms,
         call.method + " " + call.uri.substr(0, 60) + (call.probe ? ", a probe" : "") + ", the peer is " +
             name_of(how));
  if (is_send(call)) {
    if (++p.in_flight > 1) breach(p.name + " has two transactions in flight", p.name);
    if (takes(how)) take_transaction(p, call, now_ms);
  }
  std::uniform_int_distribution<std::int64_t> spread(0, std::max<std::int64_t>(p.latency_ms / 2, 1));
  const auto latency = p.latency_ms + spread(random);
  fate out{reply(p, how, call, now_ms), latency, connects(how)};
  if (how == conduct::refusing) out.after_ms = 1;
  if (how == conduct::unreachable) out.after_ms = 10 * second;
  if (how == conduct::silent || how == conduct::deaf) out.after_ms = call.timeout_ms;
  return out;
}

http_answer world::reply(peer& p, conduct how, const http_call& call, std::int64_t now_ms) {
  switch (how) {
  case conduct::live:
    if (call.uri.rfind(key_path, 0) == 0)
      return status(200, "application/json", key_document_of(p.name, p.key_id(now_ms), wall_ms(now_ms)));
    if (call.uri.rfind(list_path, 0) == 0)
      return give_list(p, percent_decode(call.uri.substr(list_path.size())).value_or(""));
    if (rooms && !is_send(call))
      if (auto said = rooms(p, call); said.status != 0) return said;
    return status(200, "application/json", R"({"pdus":{}})");
  case conduct::odd: {
    const char* bodies[] = {"", "null", "{}", "[1]", R"({"pdus":7})", "not json"};
    return status(200, "", bodies[random() % 6]);
  }
  case conduct::no_name: {
    auto out = no_answer(failure_stage::resolve, "no such name");
    out.name_unknown = true;
    return out;
  }
  case conduct::refusing:
    return no_answer(failure_stage::connect, "connection refused");
  case conduct::unreachable:
    return no_answer(failure_stage::connect, "no connection within 10 s");
  case conduct::bad_certificate:
    return no_answer(failure_stage::tls, "certificate expired");
  case conduct::silent:
  case conduct::deaf:
    return no_answer(failure_stage::answer, "no answer within 60 s");
  case conduct::broken:
    return status(503, "application/json", R"({"errcode":"M_UNKNOWN","error":"busy"})");
  case conduct::limiting:
    return status(429, "application/json",
                  R"({"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":)" + std::to_string(p.told_wait_ms) + "}");
  case conduct::parked:
    return status(404, "text/html", "<html>nothing here</html>");
  case conduct::page:
    return status(200, "text/html", "<html>parked</html>");
  }
  return {};
}

http_answer world::give_list(peer& p, const std::string& user) {
  const auto book = p.books.find(user);
  if (book == p.books.end()) return status(404, "application/json", R"({"errcode":"M_NOT_FOUND"})");
  ++p.lists_given;
  return status(200, "application/json", book->second.list(user));
}

void world::take_transaction(peer& p, const http_call& call, std::int64_t now_ms) {
  const auto id = call.uri.substr(send_path.size());
  const auto hash = std::hash<std::string_view>{}(call.body.view());
  const auto [at, fresh] = p.known.emplace(id, p.transactions.size());
  if (!fresh) {
    if (p.transactions[at->second].hash != hash)
      breach(p.name + " got transaction " + id + " with other content", p.name);
    return;
  }
  p.transactions.push_back({hash, 0, -1});
  take_items(p, call, at->second, now_ms);
}

void world::take_items(peer& p, const http_call& call, std::size_t index, std::int64_t now_ms) {
  const auto body = nlohmann::json::parse(call.body.view(), nullptr, false);
  if (!body.is_object() || !body.contains("origin") || !body.contains("origin_server_ts") || !body.contains("pdus") ||
      !body["pdus"].is_array()) {
    breach(p.name + " got a transaction of a wrong shape: " + call.body.str().substr(0, 200), p.name);
    return;
  }
  p.transactions[index].events = body["pdus"].size();
  const auto edus = body.value("edus", nlohmann::json::array());
  if (body["pdus"].size() > 50 || edus.size() > 100)
    breach(p.name + " got a transaction over the protocol's caps (T2)", p.name);
  if (call.authorization.find("destination=\"" + p.name + "\"") == std::string::npos)
    breach(p.name + " got a request that isn't addressed to it", p.name);
  const receipt now{now_ms, life, generation, index};
  std::string ids;
  for (const auto& pdu : body["pdus"]) {
    const auto event = pdu["content"].value("sim", std::string{});
    auto& list = p.events[event];
    if (list.empty() || list.back().generation != generation) p.order.emplace_back(event, generation);
    list.push_back(now);
    ids += " " + event;
  }
  if (traces(p.name))
    note(p.name, now_ms,
         "it took " + std::to_string(body["pdus"].size()) + " events and " + std::to_string(edus.size()) +
             " EDUs:" + ids + " ");
  for (const auto& edu : edus) {
    const auto type = edu.value("edu_type", "");
    if (type == "m.direct_to_device") p.messages[edu["content"].value("message_id", std::string{})].push_back(now);
    if (type != "m.device_list_update") continue;
    const auto user = edu["content"].value("user_id", std::string{});
    const bool fetch = p.lists[user].take(edu["content"]);
    if (fetch) wanted_lists.emplace(p.name, user);
    if (traces(p.name)) note(p.name, now_ms, "update " + edu["content"].dump() + (fetch ? ", to be fetched" : ""));
  }
}

} // namespace ranvier::sim
