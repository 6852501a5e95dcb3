#include "tests/simulation/world.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

// What the engine owes its peers, seen from outside: patience after a failure, and a try when the wait is over.

namespace ranvier::sim {

namespace {

constexpr std::string_view send_path = "/_matrix/federation/v1/send/";
constexpr std::string_view key_path = "/_matrix/key/v2/server";
constexpr std::int64_t slack_ms = 90 * second; ///< queueing at the egress, the request before, a busy store
constexpr std::int64_t back_within_ms = 5 * minute;
constexpr int endless = 1'000; ///< a name that is unknown for days counts as gone: the longest interval at once

bool is_send(const http_call& call) { return call.uri.rfind(send_path, 0) == 0; }

/// True if it carries something that the log would give again.
bool durable(const http_call& call) {
  const auto body = call.body.view();
  return body.find("\"pdus\":[]") == std::string_view::npos ||
         body.find("m.direct_to_device") != std::string_view::npos;
}

} // namespace

void world::ordered(const http_call& call, std::int64_t now_ms) {
  now_ms_ = now_ms;
  if (!is_send(call)) return;
  auto& g = gates_[call.destination];
  check_diligence(call.destination, g, now_ms);
  check_pace(call, now_ms);
  g.deadline_ms = 0;
  g.sent_ms = now_ms;
}

/// After n failures in a row nothing may come before the shortest wait of n, unless excused.
void world::check_pace(const http_call& call, std::int64_t now_ms) {
  auto& g = gates_[call.destination];
  if (!g.failing) return;
  const bool excused = g.excuses > 0 || g.unsure;
  const double unbounded =
      static_cast<double>(backoff.first_ms) * std::pow(backoff.factor, std::max(g.failures - 1, 0));
  const double grown = std::min(unbounded, static_cast<double>(backoff.max_ms));
  const double least = g.told_wait_ms > 0 ? static_cast<double>(g.told_wait_ms) : grown * (1 - backoff.jitter);
  const auto gap = static_cast<double>(now_ms - g.last_failure_ms);
  if (gap + 1 >= least) return;
  if (g.excuses > 0) --g.excuses;
  if (!excused)
    breach(call.destination + " was contacted " + std::to_string(now_ms - g.last_failure_ms) +
               " ms after its failure no. " + std::to_string(g.failures) + ", at least " +
               std::to_string(static_cast<std::int64_t>(least)) + " ms were due",
           call.destination);
}

std::int64_t world::longest_wait(int failures) const {
  const double grown = static_cast<double>(backoff.first_ms) * std::pow(backoff.factor, std::max(failures - 1, 0));
  return static_cast<std::int64_t>(std::min(grown, static_cast<double>(backoff.max_ms)) * (1 + backoff.jitter));
}

/// Whoever is owed something is tried when the longest wait that its failures allow is over (B17, guarantee 7).
void world::check_diligence(const std::string& server, const seen_gate& g, std::int64_t now_ms) {
  if (g.deadline_ms > 0 && now_ms > g.deadline_ms)
    breach(server + " is owed something and was tried " + std::to_string((now_ms - g.deadline_ms) / second) +
               " s later than its " + std::to_string(g.failures) + " failures allow",
           server);
}

void world::check_overdue(std::int64_t now_ms) {
  now_ms_ = now_ms;
  for (const auto& [server, g] : gates_)
    check_diligence(server, g, now_ms);
}

void world::cut(const http_call& call) {
  if (const auto found = peers.find(call.destination); found != peers.end() && is_send(call)) --found->second.in_flight;
}

void world::answered(const http_call& call, const http_answer& answer, std::int64_t now_ms, bool received) {
  now_ms_ = now_ms;
  const auto found = peers.find(call.destination);
  if (found == peers.end()) return;
  peer& p = found->second;
  if (traces(p.name))
    note(p.name, now_ms,
         "answer to " + call.method + " " + call.uri.substr(0, 60) + ": " +
             (answer.cancelled    ? "cancelled"
              : answer.status > 0 ? std::to_string(answer.status)
                                  : answer.problem));
  note_uplink(call, answer, now_ms);
  if (is_send(call) && received) --p.in_flight;
  if (!is_send(call)) return excuse_pull(call, answer, now_ms);
  if (answer.cancelled) return;
  auto& g = gates_[call.destination];
  if (answer.status != 200 || answer.content_type == "text/html")
    return note_failure(p, g, answer, durable(call), now_ms);
  p.successes.push_back(now_ms);
  if (const auto sent = p.known.find(call.uri.substr(send_path.size())); sent != p.known.end())
    p.transactions[sent->second].acked_ms = now_ms;
  g = {};
}

void world::note_failure(peer& p, seen_gate& g, const http_answer& answer, bool owes, std::int64_t now_ms) {
  p.failures.push_back(now_ms);
  if (!g.failing) g.closed_ms = now_ms;
  // A fetch that failed while this was on its way closed the gate: the wait counts from there.
  const bool closed_before = answer.status == 0 && g.pull_failed_ms >= g.sent_ms;
  g.last_failure_ms = closed_before ? g.pull_failed_ms : now_ms;
  g.told_wait_ms = answer.status == 429 ? p.told_wait_ms : 0;
  g.failures += answer.status == 429 ? 0 : 1;
  g.failing = true;
  g.owes = g.owes || owes;
  g.longest_ms =
      std::max({g.longest_ms, longest_wait(answer.name_unknown ? endless : g.failures + g.pulls), g.told_wait_ms});
  g.deadline_ms = g.owes && !g.unsure ? now_ms + g.longest_ms + slack_ms : 0;
}

/// After ten minutes in which nothing but failures to connect came, of more than ten servers, the first answer says
/// that our own uplink was down: then all gates that closed meanwhile may be tried early, once (DESIGN section 5).
void world::note_uplink(const http_call& call, const http_answer& answer, std::int64_t now_ms) {
  if (answer.cancelled) return;
  const auto& name = call.destination;
  if (answer.status == 0) {
    if (answer.stage == failure_stage::answer) return;
    if (unconnected_.empty()) unconnected_since_ms_ = now_ms;
    unconnected_.insert(name);
    if (gates_[name].failing) return;
    if (newly_.empty()) newly_since_ms_ = now_ms;
    newly_.insert(name);
    return;
  }
  constexpr std::int64_t silence_ms = 600 * second;
  if (unconnected_.size() > 10 && now_ms - unconnected_since_ms_ >= silence_ms)
    for (auto& [server, g] : gates_)
      if (g.failing && g.last_failure_ms >= unconnected_since_ms_) ++g.excuses;
  if (newly_.size() > 10 && now_ms - newly_since_ms_ >= silence_ms) expect_back(now_ms);
  unconnected_.clear();
  newly_.clear();
}

/// Whoever is well has everything soon.
void world::expect_back(std::int64_t now_ms) {
  note("", now_ms, "our uplink is back");
  for (const auto& server : newly_) {
    const auto& p = peers.at(server);
    if (gates_[server].failing && works(p.at(now_ms)) && works(p.at(now_ms + back_within_ms)) &&
        p.latency_ms <= second && !(bad && now_ms < bad->to_ms))
      promises.push_back({server, now_ms, now_ms + back_within_ms, "our uplink was back"});
  }
}

/// A fetch of a key or list that failed to connect when a probe was due was that probe; one that succeeded makes the
/// next one due.
void world::excuse_pull(const http_call& call, const http_answer& answer, std::int64_t now_ms) {
  auto& g = gates_[call.destination];
  if (answer.status == 200) ++g.excuses;
  if (answer.status != 0 || answer.cancelled) return;
  // A failure to connect closes the push lane too: what is logged from then on is logged in a closing.
  if (answer.stage != failure_stage::answer) peers.at(call.destination).failures.push_back(g.pull_failed_ms = now_ms);
  // Only a key fetch may be ahead of its time; it moves no schedule.
  const bool early = now_ms - g.last_failure_ms < g.longest_ms * 3 / 10;
  if (g.deadline_ms > 0 && early && call.uri.rfind(key_path, 0) == 0) return;
  ++g.pulls;
  if (g.deadline_ms == 0) return;
  g.longest_ms = std::max(g.longest_ms, longest_wait(answer.name_unknown ? endless : g.failures + g.pulls));
  g.deadline_ms = now_ms + g.longest_ms + slack_ms;
}

void world::killed(std::int64_t now_ms, std::int64_t down_for_ms, std::int64_t wall_jump_ms) {
  note("", now_ms, "the engine is killed, and down for " + std::to_string(down_for_ms / second) + " s");
  wall_offset_ms += wall_jump_ms;
  ++life;
  for (auto& [name, p] : peers) {
    // Nobody will know what came of it: it is tried again as soon as there is a life that can.
    if (p.in_flight > 0) ++gates_[name].excuses;
    p.in_flight = 0;
  }
  for (auto& [name, g] : gates_) {
    g.excuses += wall_jump_ms > 0 ? 1 : 0;
    // The wait goes on as it was; if the wall clock was set back it may begin anew.
    if (g.deadline_ms > 0) g.deadline_ms = now_ms + down_for_ms + g.longest_ms + slack_ms;
    if (g.failing && now_ms - g.last_failure_ms < 5 * second) g.unsure = true; // it may not have been stored yet
  }
}

void world::database_replaced(bool old) {
  ++generation;
  gates_.clear();
  if (old)
    for (const auto& [name, p] : peers)
      gates_[name].unsure = true; // whatever streak it had then, until a success
  unconnected_.clear();
  newly_.clear();
}

} // namespace ranvier::sim
