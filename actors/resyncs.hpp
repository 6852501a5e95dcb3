#pragma once
#include "actors/gate.hpp"
#include "messages/device_lists.hpp"
#include "messages/protocol/delivery.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ranvier {

/// The named limits of the resyncs of one server's users.
struct resync_limits {
  backoff_config lane;                 ///< [backoff]; the devices lane waits as the gate does
  int at_a_time = 3;                   ///< fetches under way
  int unproven_at_a_time = 2;          ///< likewise, of a server that gave no list since it last failed or refused
  int refused_to_close = 3;            ///< users refused in a row, with no success between, close the devices lane
  std::int64_t patience_ms = 1'000;    ///< a second fetch of an unproven server waits so long for the first
  std::int64_t user_first_ms = 60'000; ///< a refused user's own wait, doubled with each refusal
  std::int64_t user_longest_ms = 86'400'000;   ///< and of a list that is too large
  std::int64_t forward_ms = 60'000;            ///< evidence brings a wait forward so often
  std::int64_t forward_longest_ms = 3'600'000; ///< doubled up to this while what it brought forward is refused
  std::int64_t after_failure_ms = 5'000;       ///< a user isn't asked for again sooner, should the gate stay open
};

/// How a fetch of one user's list ended.
enum class fetch_end : std::uint8_t {
  list,      ///< a list came
  too_large, ///< one with more devices than [limits] devices_per_user
  unknown,   ///< 404: its server doesn't know the user
  refused,   ///< 403, another status, or an answer that can't be used
  failed     ///< the server's own trouble: the gate's affair
};

/// Whose device lists must be fetched from one server, in which order and when, and who waits for them (DESIGN section
/// 7, L9, L12, L15). Pure: no clock, no I/O. The destination actor owns one: it asks next(), lets the gate decide,
/// begin()s the request, hands its end to ended(), stores, and tells stored() what became of that.
///
/// Of one user one fetch is under way, whoever wants it. Users take turns: every second fetch is for somebody who is
/// waited for, the others for the oldest mark. A refused user waits by itself and holds up nobody; when the server
/// refuses several users in a row and gives no list between, its devices lane closes: then one fetch at a time sees
/// whether that has changed. A server in trouble is the gate's affair: nothing is asked until that opens.
class resyncs {
public:
  using waiter = std::uint64_t;

  /// `uniform` gives numbers in [0, 1).
  resyncs(resync_limits limits, std::function<double()> uniform);

  /// What storage says at the start. Stored moments are clamped to [now, now + the longest wait].
  void load(const std::vector<stale_user>& stored, moment at);
  /// A list was marked in storage, so far `marks` times; nothing if that is known.
  void mark(const std::string& user, std::int64_t marks, moment at);

  /// Somebody wants these lists true by `deadline_ms` (monotonic); answered through take_answers(). `by_hand`: neither
  /// the users' own waits nor the devices lane count.
  waiter want(const std::vector<std::string>& users, std::int64_t deadline_ms, bool by_hand, moment at);
  /// Answers that are due: everything is settled, or the time is over.
  std::vector<std::pair<waiter, refreshed>> take_answers(moment at);

  /// Whose list to ask for now, if the gate lets.
  std::optional<std::string> next(moment at);
  /// The request goes out; the value is the user's marks, for save_device_list.
  std::int64_t begin(const std::string& user, moment at);
  /// Its answer came. What is to be stored of the user beside it; the fetch is over with stored().
  struct outcome {
    int failures = 0;
    std::int64_t next_attempt_ms = 0; ///< wall clock; 0: when the gate lets
    bool mark = false; ///< it failed and no mark stands in storage: make one, so that the list comes with the server
  };
  outcome ended(const std::string& user, fetch_end how, const std::string& problem, moment at);
  /// What came of it was stored, or couldn't be (`saved.ok` false: then the list is asked for again).
  void stored(const std::string& user, const device_list_saved& saved, moment at);
  /// It ended without any verdict (cut by us): as if it had never begun.
  void cut(const std::string& user);

  /// The gate lets nothing pass: whoever waits for a list that isn't under way is told so now.
  void barred(const std::string& why);
  /// Users who were wanted in vain because of the server's trouble and stand in no stale mark yet: each is given once,
  /// to be marked, so that their lists come when the server does.
  std::vector<std::string> take_unmarked() { return std::exchange(unmarked_, {}); }

  /// An operator's words about the server: the devices lane tries now; it is open.
  void wake(moment at) { lane_.next_ms = std::min(lane_.next_ms, at.now_ms); }
  void reset() { open_lane(); }

  /// When something is due that isn't yet (monotonic); nothing if only an event can change anything.
  std::optional<std::int64_t> next_due(moment at);
  /// Nothing is due, under way or waited for, now or later; lists that are too large don't count.
  bool idle() const;
  /// Somebody waits for a list that could be asked for now.
  bool waited_for() const { return !asked_.empty(); }
  /// Nothing need be looked up to know that this list must be fetched.
  bool wants(const std::string& user) const { return users_.contains(user); }
  std::size_t stale() const { return stale_; }
  std::size_t running() const { return running_.size(); }
  bool lane_open() const { return !lane_.closed; }

private:
  enum class place : std::uint8_t { nowhere, ready, waiting };
  using queue = std::set<std::pair<std::int64_t, std::string>>;
  struct one {
    bool stale = false, running = false, too_large = false, forced = false;
    bool unknown = false; ///< the last answer was a 404
    std::int64_t marks = 0;
    int failures = 0; ///< refused in a row
    std::string problem;
    std::int64_t due_ms = 0;   ///< its own wait's end (monotonic)
    std::int64_t tried_ms = 0; ///< when it was last asked for (monotonic)
    std::int64_t turn = 0;     ///< who came first
    std::int64_t began_marks = 0, began_ms = 0;
    std::uint64_t lane_epoch = 0; ///< of the devices lane when it began
    fetch_end how = fetch_end::failed;
    std::map<waiter, std::int64_t> waiters; ///< with the marks that must be covered
    place filed = place::nowhere;
    std::int64_t filed_key = 0;
    bool filed_asked = false;
  };
  struct asking {
    std::set<std::string> open; ///< users not settled yet
    std::int64_t deadline_ms = 0;
    refreshed answer;
  };
  struct devices_lane {
    bool closed = false;
    std::set<std::string> users; ///< refused with no success between, while it is open
    int refusals = 0;
    std::int64_t next_ms = 0;               ///< monotonic
    std::optional<std::int64_t> forward_ms; ///< when evidence last brought it forward
    std::int64_t forward_wait_ms = 0;
    bool brought_forward = false;
    std::uint64_t epoch = 0; ///< counts closings and openings: what began before says nothing more
  };

  one& of(const std::string& user);
  void set_stale(one& u, bool stale, bool too_large);
  void file(const std::string& user, one& u);
  void unfile(const std::string& user, one& u);
  void file_or_drop(const std::string& user);
  void ripen(moment at);
  void settle(const std::string& user, one& u, const std::string& why, bool covered_only = false);
  void settle_one(waiter who, const std::string& user, const std::string& why, bool unknown);
  bool settled_at_once(waiter who, const std::string& user, one& u, moment at);
  void refused(const std::string& user, one& u, moment at);
  void open_lane();
  void bring_lane_forward(moment at);
  bool slot_free(moment at) const;
  std::optional<std::string> next_of_closed_lane(moment at) const;
  std::int64_t after(std::int64_t first_ms, double factor, int times, std::int64_t longest_ms) const;

  resync_limits limits_;
  std::function<double()> uniform_;
  std::map<std::string, one> users_;
  queue ready_;   ///< by turn
  queue asked_;   ///< of those, the ones that somebody waits for
  queue waiting_; ///< by due_ms
  std::map<waiter, asking> askings_;
  std::set<waiter> settled_;
  std::vector<std::string> unmarked_;
  devices_lane lane_;
  bool proven_ = false; ///< it gave a list since it last failed or refused
  bool turn_of_asked_ = true;
  std::size_t stale_ = 0, too_large_ = 0;
  std::set<std::string> running_;
  std::int64_t turns_ = 0;
  waiter last_waiter_ = 0;
};

} // namespace ranvier
