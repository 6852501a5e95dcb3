#pragma once
#include "messages/config.hpp"
#include "messages/protocol/egress.hpp"
#include "messages/signing.hpp"
#include "tests/simulation/devices.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
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
/// A peer's signing key, made of its name and the key's id.
signing_key key_of(const std::string& server, const std::string& key_id);

bool works(conduct how);    ///< the request is answered 200 in the end
bool takes(conduct how);    ///< the transaction is processed
bool connects(conduct how); ///< TLS is made, whatever comes then
std::string name_of(conduct how);

struct phase {
  std::int64_t from_ms = 0;
  conduct how = conduct::live;
};

/// Something that a peer got, when, and in which life of the engine and of its database.
struct receipt {
  std::int64_t at_ms = 0;
  int life = 0, generation = 0;
  std::size_t transaction = 0; ///< index in peer::transactions
};
struct seen_transaction {
  std::size_t hash = 0;       ///< of its bytes
  std::size_t events = 0;     ///< PDUs in it
  std::int64_t acked_ms = -1; ///< when its 200 reached the engine
};

/// A simulated homeserver: its script, what it got, and what it saw of us. It outlives the engine.
struct peer {
  std::string name;
  std::vector<phase> script;             ///< in order of time; before the first it is live
  std::vector<std::int64_t> new_keys_ms; ///< when it changes its signing key
  std::int64_t latency_ms = 50;
  std::int64_t told_wait_ms = 0; ///< for limiting
  bool always_well = true;

  std::unordered_map<std::string, std::vector<receipt>> events;   ///< each time it came in another transaction
  std::unordered_map<std::string, std::vector<receipt>> messages; ///< to-device, by message id
  std::vector<std::pair<std::string, int>> order; ///< event ids as they first came in each generation of the database
  std::map<std::string, std::size_t> known;       ///< transaction id -> index
  std::vector<seen_transaction> transactions;
  std::vector<std::int64_t> successes, failures; ///< moments when /send was answered 200, and when it failed
  std::uint64_t attempts = 0;
  int in_flight = 0;
  std::map<std::string, told_list> lists;   ///< of users of ours
  std::size_t lists_fetched = 0;            ///< of those
  std::map<std::string, device_book> books; ///< of its own users
  std::size_t lists_given = 0;              ///< of those

  conduct at(std::int64_t now_ms) const;
  std::string key_id(std::int64_t now_ms) const;
};

/// A rule that was broken, in a sentence, and whom it concerns.
struct breach_note {
  std::string sentence, server, event;
  std::int64_t at_ms = 0;
};

/// By then this server must have everything that was fed before: it is well again, and there is a reason to know it.
struct promise {
  std::string server;
  std::int64_t from_ms = 0, by_ms = 0;
  std::string why;
};

/// For a while a part of all requests fails, in any class.
struct bad_times {
  std::int64_t from_ms = 0, to_ms = 0;
  int percent = 0;
};

/// Everything outside of the engine: the peers, the clocks, and the rules that no request may break. A breach is noted
/// as a sentence; the test fails if there is one.
class world {
public:
  explicit world(std::uint64_t seed)
      : random(seed) {}

  peer& add(peer p) { return peers[p.name] = std::move(p); }
  std::int64_t wall_ms(std::int64_t now_ms) const { return wall_offset_ms + now_ms; }
  void breach(const std::string& sentence, const std::string& server = {}, const std::string& event = {});
  /// Notes what happened to a server whose trace is wanted (empty: to the engine; that is in every trace).
  void note(const std::string& server, std::int64_t at_ms, const std::string& what);
  bool traces(const std::string& server) const { return focus.count(server) > 0 || (server.empty() && !focus.empty()); }

  /// The engine gives the egress a request: now is its gate's decision.
  void ordered(const http_call& call, std::int64_t now_ms);
  /// The request goes out. What comes of it, and after how long.
  struct fate {
    http_answer answer;
    std::int64_t after_ms = 0;
    bool connects = true;
  };
  fate receive(http_call call, std::int64_t now_ms);
  /// Its connection was closed for others' sake; it will be received once more (DESIGN section 5, patience).
  void cut(const http_call& call);
  /// Its answer reached the engine (or it was ended, perhaps before it was received).
  void answered(const http_call& call, const http_answer& answer, std::int64_t now_ms, bool received = true);
  /// It is excusable that the next attempt comes early: an inbound request, an operator.
  void excuse(const std::string& name) { ++gates_[name].excuses; }
  /// The engine was killed; while it was down the wall clock was set by `wall_jump_ms`. If that was forward, stored
  /// moments may seem to have passed.
  void killed(std::int64_t now_ms, std::int64_t down_for_ms = 0, std::int64_t wall_jump_ms = 0);
  /// Its database is another one from now on: what it knew of gates and cursors is gone, or `old`.
  void database_replaced(bool old);
  /// The end of the run: whoever is owed something and should have been tried is a breach.
  void check_overdue(std::int64_t now_ms);

  std::map<std::string, peer> peers;
  std::mt19937_64 random;
  std::int64_t wall_offset_ms = 1'700'000'000'000;
  int life = 1, generation = 1;
  std::optional<bad_times> bad;
  /// What a peer that is well answers to requests about rooms; status 0: it is no such request.
  std::function<http_answer(peer&, const http_call&)> rooms;
  std::function<void(http_call&)> tamper; ///< for tests of the judges: spoils what goes out, as a broken engine would
  std::vector<breach_note> breaches;
  std::vector<promise> promises;
  std::set<std::pair<std::string, std::string>> wanted_lists; ///< peer, user of ours whose list it will ask for
  backoff_config backoff;
  std::set<std::string> focus; ///< servers whose trace is wanted
  struct happening {
    std::int64_t at_ms = 0;
    std::string server, what;
  };
  std::vector<happening> trace;

private:
  /// What we know of the engine's duty to wait, seen from outside (guarantee 3), and of its duty to try (guarantee 7).
  struct seen_gate {
    int failures = 0; ///< the streak: a 429 grows none
    bool failing = false;
    std::int64_t closed_ms = 0, last_failure_ms = 0, told_wait_ms = 0;
    std::int64_t sent_ms = 0, pull_failed_ms = 0; ///< the transaction in flight; a fetch that found nobody
    int excuses = 0;                              ///< so many attempts may come early
    int pulls = 0;                                ///< key fetches that were its probe, and failed
    bool unsure = false;
    bool owes = false;            ///< something durable failed to go
    std::int64_t longest_ms = 0;  ///< the longest wait that this streak allows
    std::int64_t deadline_ms = 0; ///< the next attempt comes by then
  };
  http_answer give_list(peer& p, const std::string& user);
  http_answer reply(peer& p, conduct how, const http_call& call, std::int64_t now_ms);
  std::int64_t longest_wait(int failures) const;
  void check_pace(const http_call& call, std::int64_t now_ms);
  void check_diligence(const std::string& server, const seen_gate& g, std::int64_t now_ms);
  void note_failure(peer& p, seen_gate& g, const http_answer& answer, bool durable, std::int64_t now_ms);
  void note_uplink(const http_call& call, const http_answer& answer, std::int64_t now_ms);
  void expect_back(std::int64_t now_ms);
  void excuse_pull(const http_call& call, const http_answer& answer, std::int64_t now_ms);
  void take_transaction(peer& p, const http_call& call, std::int64_t now_ms);
  void take_items(peer& p, const http_call& call, std::size_t index, std::int64_t now_ms);

  std::map<std::string, seen_gate> gates_;
  std::set<std::string> unconnected_; ///< servers that couldn't be connected to since anybody last answered
  std::set<std::string> newly_;       ///< those of them that could be before
  std::int64_t unconnected_since_ms_ = 0, newly_since_ms_ = 0, now_ms_ = 0;
};

} // namespace ranvier::sim
