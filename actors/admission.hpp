#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ranvier {

struct admission_limits {
  std::int64_t max_in_flight = 512;
  std::int64_t max_new_connections_per_second = 500;
  std::int64_t max_young_handshakes = 128; ///< connections being made that began less than young_handshake_ms ago
};

/// Waiting tickets, served in turn by destination, so that many requests to one server don't hold up another's.
class fair_queue {
public:
  using ticket = std::uint64_t;
  void push(const std::string& destination, ticket id);
  /// The next one in turn; the queue mustn't be empty.
  ticket pop();
  void remove(const std::string& destination, ticket id);
  std::size_t size() const { return size_; }

private:
  std::deque<std::string> turns_; ///< may name a destination that has gone meanwhile: skipped
  std::unordered_map<std::string, std::deque<ticket>> waiting_;
  std::size_t size_ = 0;
};

/// Which outgoing request may go now (DESIGN section 5, pacing): a pure core, owned by the HTTP client's thread, which
/// tells it what happens and does what it says. Half of the slots are for servers whose last request was answered
/// within a second; everything else, and what is unanswered for a second, shares the other half; slots that nobody
/// claims may be used by either. While somebody waits, a request of the second half is cut once its patience is over
/// (1 s, doubled at each cut, up to its timeout) and stands at the queue's end again. A borrowed slot is given back
/// after a second. A request that mustn't be repeated is never cut. Moments are ms of one monotonic clock.
class admission {
public:
  using ticket = std::uint64_t;
  static constexpr std::int64_t first_patience_ms = 1'000;
  static constexpr std::int64_t quick_ms = 1'000;
  static constexpr std::int64_t young_handshake_ms = 250;
  static constexpr std::int64_t remember_quick_ms = 600'000;

  struct request {
    ticket id = 0;
    std::string destination;
    bool probe = false;
    bool repeatable = true;
    std::int64_t timeout_ms = 60'000;
  };
  struct orders {
    std::vector<ticket> cut;   ///< close their connections first; they wait again already
    std::vector<ticket> start; ///< then start these
  };

  /// `open_connections` answers how many connections to a destination are open, idle ones included.
  admission(admission_limits limits, std::function<int(const std::string&)> open_connections);

  void add(request what);
  orders next(std::int64_t now);
  /// Its connection is made, whether new or pooled. What was charged for a new one is given back if none was opened.
  void connected(ticket id);
  /// A socket was opened for it. One beyond what was foreseen is charged afterwards.
  void opened_socket(ticket id);
  /// It is over. `answered`: a whole answer came. Waiting ones may be ended too.
  void finished(ticket id, bool answered, std::int64_t now);

  /// When next() could say more than now if nothing else happens; -1: never.
  std::int64_t next_moment(std::int64_t now) const;
  std::size_t in_flight() const { return running_.size(); }
  std::size_t waiting() const;

private:
  enum kind { quick = 0, other = 1 };
  struct entry {
    request what;
    std::int64_t patience_ms = first_patience_ms;
    std::int64_t started = 0, due = 0;
    kind half = other;
    bool running = false, paid = false, warm_queue = false;
  };
  struct peer {
    bool was_quick = false;
    int running = 0, entries = 0;
    std::int64_t last = 0;
  };
  using moment_set = std::set<std::pair<std::int64_t, ticket>>;

  void refill(std::int64_t now);
  void demote(std::int64_t now);
  void enqueue(entry& e);
  bool has_idle_connection(const std::string& destination);
  bool may_connect() const;
  bool startable(kind half) const;
  bool start_one(kind half, std::int64_t now, orders& out);
  bool start_any(std::int64_t now, orders& out);
  bool cut_one(std::int64_t now, orders& out);
  void make_cuttable(entry& e);
  void leave_slot(entry& e);
  void sweep(std::int64_t now);
  std::int64_t share(kind half) const;

  admission_limits limits_;
  std::function<int(const std::string&)> open_connections_;
  double tokens_, burst_, per_ms_;
  std::int64_t refilled_ = 0, swept_ = 0;
  std::unordered_map<ticket, entry> entries_;
  std::unordered_map<std::string, peer> peers_;
  fair_queue warm_[2], cold_[2];                 ///< by half; warm: an idle connection was there when it was queued
  bool cold_next_[2] = {true, true};             ///< the two take turns, so that neither starves the other
  std::unordered_map<std::string, int> closing_; ///< connections of those that are being cut in this round
  std::set<ticket> running_;
  std::int64_t count_[2] = {0, 0};
  moment_set quick_started_; ///< running in the quick half, by start
  moment_set other_started_; ///< running in the other half and repeatable, by start
  moment_set other_due_;     ///< the same, by the end of their patience; not those whose timeout ends it
  moment_set young_;         ///< connections being made, by start
};

} // namespace ranvier
