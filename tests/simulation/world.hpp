#pragma once
#include "messages/config.hpp"
#include "messages/protocol/egress.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ranvier::sim {

constexpr std::int64_t second = 1'000;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;

/// How a simulated homeserver treats us for a while.
enum class conduct : std::uint8_t {
  live,            ///< 200 after its latency
  odd,             ///< 200 with an odd body: a success all the same
  no_name,         ///< NXDOMAIN
  refusing,        ///< connection refused
  unreachable,     ///< connecting times out
  bad_certificate, ///< TLS fails
  silent,          ///< takes the request, never answers, does nothing
  deaf,            ///< takes and does it, and the answer is lost
  broken,          ///< 503
  limiting,        ///< 429 with a retry_after_ms
  parked,          ///< a web host: 404 to everything
  page             ///< 200 with an HTML page
};
bool works(conduct how);           ///< the request is answered 200 in the end
bool takes(conduct how);           ///< the transaction is processed

struct phase {
  std::int64_t from_ms = 0;
  conduct how = conduct::live;
};

/// Something that a peer got, when, and in which life of the engine.
struct receipt {
  std::int64_t at_ms = 0;
  int life = 0;
  std::uint64_t order = 0; ///< over the whole peer
};

/// A simulated homeserver: its script, what it got, and what it saw of us. It outlives the engine.
struct peer {
  std::string name;
  std::vector<phase> script;       ///< in order of time; before the first it is live
  std::int64_t latency_ms = 50;
  std::int64_t told_wait_ms = 0;   ///< for limiting
  bool always_well = true;

  std::map<std::string, std::vector<receipt>> events;   ///< by event id: each time it came in another transaction
  std::map<std::string, std::vector<receipt>> messages; ///< to-device, by message id
  std::vector<std::string> order;                       ///< event ids as they first came
  std::map<std::string, std::size_t> transactions;      ///< id -> hash of its bytes
  std::map<std::string, std::size_t> unanswered;        ///< id -> events, of those that it took and we never knew
  std::vector<std::int64_t> successes, failures;        ///< moments when /send was answered 200, and when it failed
  std::uint64_t attempts = 0;
  int in_flight = 0;

  conduct at(std::int64_t now_ms) const;
};

/// Everything outside of the engine: the peers, the clocks, and the rules that no request may break. A breach is noted
/// as a sentence; the test fails if there is one.
class world {
public:
  explicit world(std::uint64_t seed) : random(seed) {}

  peer& add(peer p) { return peers[p.name] = std::move(p); }
  std::int64_t wall_ms(std::int64_t now_ms) const { return wall_offset_ms + now_ms; }
  void breach(const std::string& sentence);

  /// A request arrives. What comes of it, and after how long.
  struct fate {
    http_answer answer;
    std::int64_t after_ms = 0;
  };
  fate receive(const http_call& call, std::int64_t now_ms);
  /// Its answer reached the engine (or it was ended).
  void answered(const http_call& call, const http_answer& answer, std::int64_t now_ms);
  /// It is excusable that the next attempt comes early: an inbound request, an operator, a kill right after a failure.
  void excuse(const std::string& name) { gates_[name].excused = true; }
  /// The engine was killed; while it was down the wall clock was set by `wall_jump_ms`. If that was forward, stored
  /// moments may seem to have passed.
  void killed(std::int64_t now_ms, std::int64_t wall_jump_ms = 0);

  std::map<std::string, peer> peers;
  std::mt19937_64 random;
  std::int64_t wall_offset_ms = 1'700'000'000'000;
  int life = 1;
  std::vector<std::string> breaches;
  backoff_config backoff;

private:
  /// What we know of the engine's duty to wait, seen from outside (guarantee 3).
  struct seen_gate {
    int failures = 0;     ///< the streak: a 429 grows none
    bool failing = false;
    std::int64_t last_failure_ms = 0, told_wait_ms = 0;
    bool excused = false, unsure = false;
  };
  void check_pace(const http_call& call, std::int64_t now_ms);
  void note_uplink(const http_call& call, const http_answer& answer, std::int64_t now_ms);
  void take_transaction(peer& p, const http_call& call, std::int64_t now_ms);

  std::map<std::string, seen_gate> gates_;
  std::set<std::string> unconnected_;  ///< servers that couldn't be connected to since anybody last answered
  std::int64_t unconnected_since_ms_ = 0;
};

} // namespace ranvier::sim
