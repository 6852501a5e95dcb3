#include "tests/simulation/world.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace ranvier::sim {

namespace {

constexpr std::size_t most_breaches = 20;
constexpr std::string_view send_path = "/_matrix/federation/v1/send/";

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

} // namespace

bool works(conduct how) { return how == conduct::live || how == conduct::odd; }
bool takes(conduct how) { return works(how) || how == conduct::deaf; }

conduct peer::at(std::int64_t now_ms) const {
  conduct how = conduct::live;
  for (const auto& p : script)
    if (p.from_ms <= now_ms)
      how = p.how;
  return how;
}

void world::breach(const std::string& sentence) {
  if (breaches.size() < most_breaches)
    breaches.push_back(sentence);
}

world::fate world::receive(const http_call& call, std::int64_t now_ms) {
  const auto found = peers.find(call.destination);
  if (found == peers.end()) {
    breach("a request to " + call.destination + ", which nobody knows");
    return {no_answer(failure_stage::resolve, "unknown"), 1};
  }
  peer& p = found->second;
  ++p.attempts;
  check_pace(call, now_ms);
  const conduct how = p.at(now_ms);
  if (is_send(call)) {
    if (++p.in_flight > 1)
      breach(p.name + " has two transactions in flight");
    if (takes(how))
      take_transaction(p, call, now_ms);
  }
  std::uniform_int_distribution<std::int64_t> spread(0, std::max<std::int64_t>(p.latency_ms / 2, 1));
  const auto jitter = spread(random);
  const auto latency = p.latency_ms + jitter;
  switch (how) {
    case conduct::live: return {status(200, "application/json", R"({"pdus":{}})"), latency};
    case conduct::odd: {
      const char* bodies[] = {"", "null", "{}", "[1]", R"({"pdus":7})", "not json"};
      return {status(200, "", bodies[random() % 6]), latency};
    }
    case conduct::no_name: {
      auto out = no_answer(failure_stage::resolve, "no such name");
      out.name_unknown = true;
      return {out, latency};
    }
    case conduct::refusing: return {no_answer(failure_stage::connect, "connection refused"), 1};
    case conduct::unreachable: return {no_answer(failure_stage::connect, "no connection within 10 s"), 10 * second};
    case conduct::bad_certificate: return {no_answer(failure_stage::tls, "certificate expired"), latency};
    case conduct::silent:
    case conduct::deaf: return {no_answer(failure_stage::answer, "no answer within 60 s"), call.timeout_ms};
    case conduct::broken:
      return {status(503, "application/json", R"({"errcode":"M_UNKNOWN","error":"busy"})"), latency};
    case conduct::limiting: {
      const auto wait = std::to_string(p.told_wait_ms);
      return {status(429, "application/json", R"({"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":)" + wait + "}"),
              latency};
    }
    case conduct::parked: return {status(404, "text/html", "<html>nothing here</html>"), latency};
    case conduct::page: return {status(200, "text/html", "<html>parked</html>"), latency};
  }
  return {};
}

/// Seen from outside: after n failures in a row nothing may come before the shortest wait of n, unless excused.
void world::check_pace(const http_call& call, std::int64_t now_ms) {
  auto& g = gates_[call.destination];
  if (!is_send(call) || !g.failing)
    return;
  const bool excused = std::exchange(g.excused, false) || g.unsure;
  const double unbounded =
    static_cast<double>(backoff.first_ms) * std::pow(backoff.factor, std::max(g.failures - 1, 0));
  const double grown = std::min(unbounded, static_cast<double>(backoff.max_ms));
  const double least = g.told_wait_ms > 0 ? static_cast<double>(g.told_wait_ms) : grown * (1 - backoff.jitter);
  const auto gap = static_cast<double>(now_ms - g.last_failure_ms);
  if (!excused && gap + 1 < least)
    breach(call.destination + " was contacted " + std::to_string(now_ms - g.last_failure_ms) +
           " ms after its failure no. " + std::to_string(g.failures) + ", at least " +
           std::to_string(static_cast<std::int64_t>(least)) + " ms were due");
}

void world::take_transaction(peer& p, const http_call& call, std::int64_t now_ms) {
  const auto id = call.uri.substr(send_path.size());
  const auto hash = std::hash<std::string>{}(call.body.str());
  const auto [known, fresh] = p.transactions.emplace(id, hash);
  if (!fresh) {
    if (known->second != hash)
      breach(p.name + " got transaction " + id + " with other content");
    return;
  }
  const auto body = nlohmann::json::parse(call.body.view(), nullptr, false);
  if (!body.is_object() || !body.contains("origin") || !body.contains("origin_server_ts") || !body.contains("pdus")
      || !body["pdus"].is_array()) {
    breach(p.name + " got a transaction of a wrong shape: " + call.body.str().substr(0, 200));
    return;
  }
  p.unanswered[id] = body["pdus"].size();
  const auto edus = body.value("edus", nlohmann::json::array());
  if (body["pdus"].size() > 50 || edus.size() > 100)
    breach(p.name + " got a transaction over the protocol's caps (T2)");
  if (call.authorization.find("destination=\"" + p.name + "\"") == std::string::npos)
    breach(p.name + " got a request that isn't addressed to it");
  for (const auto& pdu : body["pdus"]) {
    const auto event = pdu["content"].value("sim", std::string{});
    auto& list = p.events[event];
    if (list.empty())
      p.order.push_back(event);
    list.push_back({now_ms, life, p.order.size()});
  }
  for (const auto& edu : edus)
    if (edu.value("edu_type", "") == "m.direct_to_device")
      p.messages[edu["content"].value("message_id", std::string{})].push_back({now_ms, life, p.order.size()});
}

void world::answered(const http_call& call, const http_answer& answer, std::int64_t now_ms) {
  const auto found = peers.find(call.destination);
  if (found == peers.end())
    return;
  peer& p = found->second;
  note_uplink(call, answer, now_ms);
  auto& g = gates_[call.destination];
  if (is_send(call))
    --p.in_flight;
  if (answer.cancelled || !is_send(call))
    return;
  const bool ok = answer.status == 200 && answer.content_type != "text/html";
  if (ok) {
    p.successes.push_back(now_ms);
    p.unanswered.erase(call.uri.substr(send_path.size()));
    g = {};
    return;
  }
  p.failures.push_back(now_ms);
  g.last_failure_ms = now_ms;
  g.told_wait_ms = answer.status == 429 ? p.told_wait_ms : 0;
  g.failures += answer.status == 429 ? 0 : 1;
  g.failing = true;
}

/// After ten minutes in which nothing but failures to connect came, of more than ten servers, the first answer says
/// that our own uplink was down: then all that failed meanwhile may be tried early, once (DESIGN section 5).
void world::note_uplink(const http_call& call, const http_answer& answer, std::int64_t now_ms) {
  if (answer.cancelled)
    return;
  if (answer.status == 0) {
    if (answer.stage == failure_stage::answer)
      return;
    if (unconnected_.empty())
      unconnected_since_ms_ = now_ms;
    unconnected_.insert(call.destination);
    return;
  }
  if (unconnected_.size() > 10 && now_ms - unconnected_since_ms_ >= 600 * second)
    for (auto& [name, g] : gates_)
      if (g.failing && g.last_failure_ms >= unconnected_since_ms_)
        g.excused = true;
  unconnected_.clear();
}

void world::killed(std::int64_t now_ms, std::int64_t wall_jump_ms) {
  wall_offset_ms += wall_jump_ms;
  ++life;
  for (auto& [name, p] : peers)
    p.in_flight = 0;
  for (auto& [name, g] : gates_) {
    g.excused = g.excused || wall_jump_ms > 0;
    if (g.failing && now_ms - g.last_failure_ms < 5 * second)
      g.unsure = true; // the failure may not have been stored yet
  }
}

} // namespace ranvier::sim
