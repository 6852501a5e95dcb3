#pragma once
#include "actors/actor_facts.hpp"
#include "actors/destination_view.hpp"
#include "actors/partial_join.hpp"
#include "actors/supervisor.hpp"
#include "actors/uplink_watch.hpp"

#include <nlohmann/json.hpp>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ranvier {

struct supervisor_state;
using supervisor_self = supervisor_actor::stateful_pointer<supervisor_state>;

/// Answers of several actors on their way to one asker: `finish` is called once, when all have come or failed.
struct gathering {
  std::size_t missing = 0;
  std::vector<nlohmann::json> views;
  std::function<void(gathering&)> finish;
};

/// Our own presence is written down so often.
constexpr std::int64_t heartbeat_ms = 60'000;

class supervisor_core {
public:
  supervisor_core(supervisor_self self, supervisor_parts parts);
  supervisor_actor::behavior_type make_behavior();

private:
  struct child {
    destination_actor actor;
    std::uint64_t sent = 0;       ///< messages that may_retire is judged by
    bool subscribed = false;      ///< it takes new entries as messages
    bool behind = true;           ///< an entry came for it while it wasn't subscribed (or may have, before it was made)
    bool by_hand = false;         ///< an operator has it ended: no crash
    bool failed = false;          ///< its restart budget is used up; `actor` is none
    std::int64_t retry_at_ms = 0; ///< failed: monotonic moment of the next chance
    std::deque<std::int64_t> crashes;
    int restarts = 0;
    std::string last_crash;
  };

  // supervisor_core.cpp: life, fan-out
  void boot(const std::string& after);
  void fan_out(const committed& news);
  void hand_over(const std::string& server, const std::shared_ptr<const log_entry>& entry);
  child* ensure(const std::string& server, bool owed);
  void start(const std::string& server, child& one, bool owed);
  void ended(const caf::down_msg& down);
  void end_all(const caf::error& reason);
  void on_tick(const tick& t);
  void retry_failed(std::int64_t at_ms);
  void arm();
  bool denied(const std::string& server);
  caf::result<subscribed> take_subscription(const subscribe& s);
  void drop_subscription(const unsubscribe& u);
  done judge_retirement(const may_retire& wish);
  caf::result<pulled> pass_on(const pull& p);
  caf::result<refreshed> pass_on(const refresh_lists& wanted);
  void pass_on(const heard_from& heard);
  caf::result<done> pass_on(const operate& order);
  caf::result<done> restart(const operate& order);

  // supervisor_joins.cpp: partial joins
  void meet(const introduce& all);
  void look_after(const std::string& room_id);
  void look_after(const partial_join_row& row);
  void look_after_unread();
  void end_join(const std::string& room_id);
  void join_ended(const caf::down_msg& down);
  caf::result<done> pass_on(const operate_join& order);
  caf::result<description> describe_partial_joins(const local<describe_joins>& which);

  // supervisor_outages.cpp: outages of our own, and the end
  struct round;
  void begin_after_boot();
  void beat();
  void begin_announcing();
  void begin(round& one, std::int64_t since_ms);
  void took(const reachability& news);
  void nudge_some();
  void read_page(round& of);
  void take_page(round& of, std::vector<std::string> page);
  bool nudge(const std::string& server, const round& of);
  void end_pass();
  void wait_for_page(round& of, const caf::error& problem);
  caf::result<done> wind_down_all(const wind_down& word);

  // supervisor_views.cpp: introspection
  caf::result<description> describe_destination(const describe_one& which);
  caf::result<description> list_destinations_view(const list_view& wanted);
  caf::result<description> list_actors_view(const list_actors& which);
  caf::result<description> totals_view();
  void count_all(const stale_users& stale, caf::typed_response_promise<description> promise);
  void answer_list(const list_view& wanted, const destination_rows& all,
                   caf::typed_response_promise<description> promise);
  void stored_view(const std::string& name, std::function<void(nlohmann::json)> then);
  gate_view shown(const destination_row& row);
  std::shared_ptr<gathering> gather(std::size_t count, std::function<void(gathering&)> finish);
  template <class Handle> void ask(const std::shared_ptr<gathering>& into, const Handle& whom, bool brief);
  nlohmann::json own_view() const;
  std::int64_t now_ms() const;

  supervisor_self self_;
  supervisor_parts parts_;
  actor_facts facts_;
  std::unordered_map<std::string, child> children_;
  std::unordered_map<caf::actor_id, std::string> names_;
  std::unordered_map<std::string, bool> denied_cache_;
  std::vector<describable> others_;
  keyring_actor keyring_;
  struct room_child {
    partial_join_actor actor;
    std::int64_t generation = 0;
    int restarts = 0;            ///< crashes of the last hour
    std::int64_t crashed_ms = 0; ///< the last one, monotonic
    bool ordered = false;        ///< an operator ends it, so that it is made anew
  };
  std::map<std::string, room_child> joins_; ///< partially joined rooms
  std::set<std::string> joins_unread_;      ///< rooms (empty: all) that are to be read again, at joins_due_ms_
  std::optional<std::int64_t> joins_due_ms_;
  position fanned_out_ = 0;
  bool booting_ = true, ready_told_ = false;
  int restarts_ = 0;
  std::string last_restart_;
  std::int64_t last_restart_wall_ms_ = 0;
  std::uint64_t timer_generation_ = 0;
  bool armed_ = false, stopping_ = false;
  std::int64_t timer_due_ms_ = 0, heartbeat_due_ms_ = 0, nudge_due_ms_ = 0;
  std::optional<std::int64_t> retry_due_ms_; ///< the next one of those that failed

  /// A walk over servers by name that are to be told something, paced; pages come from a reader.
  struct round {
    bool active = false, reading = false, last_page = false;
    std::uint64_t number = 0;  ///< pages of an earlier round are ignored
    std::int64_t since_ms = 0; ///< wall clock
    std::string after;         ///< the last name of the latest page
    std::deque<std::string> names;
    std::size_t told = 0; ///< in this pass
    int passes = 0;
  };
  round announcing_;              ///< after an outage of ours: one transaction for everybody
  round forwarding_;              ///< after an outage of our uplink: probes that wait are due now
  std::size_t announcements_ = 0; ///< under way
  std::uint64_t rounds_ = 0;
  uplink_watch uplink_;
  std::int64_t reached_wall_ms_ = 0; ///< the latest answer from anybody; stored with the heartbeat
};

struct supervisor_state {
  supervisor_state() = default;
  static inline const char* name = "supervisor";
  std::optional<supervisor_core> core;
};

} // namespace ranvier
