#pragma once
#include "actors/actor_facts.hpp"
#include "actors/destination.hpp"
#include "actors/destination_view.hpp"
#include "actors/failure_classes.hpp"
#include "actors/gate.hpp"
#include "actors/list_courier.hpp"
#include "actors/outbox.hpp"
#include "actors/poison.hpp"
#include "actors/resyncs.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ranvier {

struct destination_state;
using destination_self = destination_actor::stateful_pointer<destination_state>;

/// The destination actor's inside; see actors/destination.hpp for its life. Members are called by one-line handlers
/// only, and every one that may change what is possible ends in step(), the one place that decides what goes out next.
class destination_core {
public:
  destination_core(destination_self self, std::shared_ptr<const destination_parts> parts, supervisor_actor supervisor,
                   destination_birth birth);
  destination_actor::behavior_type make_behavior();

private:
  // destination_core.cpp: life and decisions
  void start();
  void load();
  void load_stale(const loaded_destination& found);
  void loaded(const loaded_destination& found);
  void retry_load(const std::string& problem);
  void step();
  bool wants_probe() const;
  void send_probe(moment at);
  void close_window();
  void drop_window();
  transaction_bounds bounds() const { return {poison_.most_items(), poison_.most_bytes()}; }
  void subscribe_and_read();
  void read_more();
  void read_lists();
  void arm();
  void on_tick(const tick& t);
  void ask_to_retire();
  bool may_rest() const;
  std::int64_t rests_at_ms() const;
  void take(const log_entry& entry);

  // destination_orders.cpp: what others tell it to do
  void heard();
  void come_forward_now();
  caf::result<done> announce_us(const announce& word);
  void settle_announcements(bool ok);
  caf::result<done> obey(const operate& order);
  void carry_out(const operate& order, caf::typed_response_promise<done> promise);
  void hold_or_release(const operate& order, caf::typed_response_promise<done> promise);
  void drop_owed();
  void owed_is_dropped(const owed_dropped& what);
  caf::result<done> finish();

  // destination_requests.cpp: what goes out and what comes back
  void send(built_transaction what, pass as);
  void answered(const http_answer& answer);
  void push_answered(const http_answer& answer);
  void push_succeeded(const http_answer& answer);
  void push_failed(const http_answer& answer, const failure& why);
  void keep_for_retry(const http_answer& answer);
  void set_aside(const failure& why);
  caf::result<pulled> request(const pull& wanted);
  void start_pull(const pull& wanted, caf::typed_response_promise<pulled> promise);
  void pull_answered(const http_answer& answer);
  judged judge_pull(const http_answer& answer, const ticket& pass, const std::string& name, std::int64_t timeout_ms);
  void order(http_call call);
  void tell_reachability(const http_answer& answer);
  void follow(const gate_change& change);
  void save_gate_row(bool opens_interval, bool closes_interval);
  void gate_not_saved(const std::string& why);
  std::string closed_sentence() const;
  void told(const attempt& one) const;

  // destination_lists.cpp: device lists of its users
  caf::result<refreshed> refresh(const refresh_lists& wanted);
  void look_up(const refresh_lists& wanted, std::int64_t deadline_ms, caf::typed_response_promise<refreshed> promise);
  void want_lists(const std::vector<std::string>& users, bool by_hand, std::int64_t deadline_ms,
                  const caf::typed_response_promise<refreshed>& promise);
  void lists_marked(const log_entry& entry);
  void fetch_lists();
  void start_fetch(const std::string& user, moment at);
  bool list_answered(const http_answer& answer);
  void store_list(save_device_list list);
  void mark_lists(std::vector<std::string> users, const std::string& cause);
  void answer_askers();
  void end_refreshes(const std::string& why);

  // destination_describe.cpp
  caf::result<description> describe_self(const describe& how);
  nlohmann::json brief_view() const;
  destination_facts facts(const destination_row& row) const;

  moment now() const;
  std::int64_t now_ms() const;

  /// A transaction that was handed to the egress; its bytes and id never change (T4).
  struct flight {
    built_transaction what;
    ticket pass;
    std::uint64_t call = 0;
    std::int64_t since_wall_ms = 0;
  };
  struct outstanding_pull {
    pull wanted;
    ticket pass;
    caf::typed_response_promise<pulled> promise;
  };

  /// A request for the device list of a user.
  struct list_fetch {
    std::string user;
    std::int64_t marks = 0;
    ticket pass;
    std::int64_t began_ms = 0; ///< wall clock
  };

  destination_self self_;
  std::shared_ptr<const destination_parts> parts_;
  supervisor_actor supervisor_;
  destination_birth birth_;
  actor_facts facts_;
  outbox outbox_;
  list_courier lists_;
  resyncs resyncs_;
  poison poison_; ///< which item it is that the server refuses
  std::map<std::uint64_t, list_fetch> fetches_;
  std::map<resyncs::waiter, caf::typed_response_promise<refreshed>> askers_;
  std::size_t looking_up_ = 0; ///< refreshes whose users' lists are being looked up
  std::optional<gate> gate_;   ///< none until the row is loaded
  destination_row row_;        ///< as loaded; cursors and gate live in outbox_ and gate_
  std::vector<std::function<void()>> when_loaded_;
  std::optional<flight> in_flight_;
  std::optional<built_transaction> frozen_; ///< its bytes may have reached the peer: goes again as it is (T3)
  std::int64_t frozen_since_ms_ = 0;        ///< monotonic, of its first failure, or of the first one without an answer
  bool frozen_unsure_ = false;              ///< nobody knows what came of the last try
  std::map<std::uint64_t, outstanding_pull> pulls_;
  attempt_history attempts_;
  std::uint64_t last_call_ = 0;
  std::uint64_t received_ = 0; ///< messages from the supervisor that may_retire is judged by
  bool owed_ = true;           ///< something durable may wait for this server
  bool extras_ = true;         ///< something below the cursors may wait; known once the window is read
  bool subscribing_ = false, reading_ = false, reading_lists_ = false, wake_wanted_ = false, asking_to_retire_ = false;
  std::vector<caf::typed_response_promise<done>> announcements_; ///< they wait for one success, an empty one will do
  /// An operator lets go what it is owed: no new transaction until that is stored.
  struct drop_order {
    operate order;
    caf::typed_response_promise<done> promise;
    bool asked = false;
  };
  std::optional<drop_order> dropping_;
  std::optional<caf::typed_response_promise<done>> finishing_; ///< the engine stops: nothing new goes out
  std::optional<bool> told_reached_;                           ///< what the supervisor was told last
  std::int64_t told_at_ms_ = 0;
  std::uint64_t subscription_ = 0; ///< answers of an earlier one are ignored
  std::int64_t idle_since_ms_ = 0, retry_at_ms_ = 0;
  int saves_ = 0;                  ///< of the gate's row, under way
  std::int64_t save_again_ms_ = 0; ///< the gate's row couldn't be written: again then; 0: it is
  bool armed_ = false;
  std::int64_t timer_due_ms_ = 0;
  std::uint64_t timer_generation_ = 0;
};

/// CAF makes a State itself, without arguments; the core is put in by the behaviour function.
struct destination_state {
  destination_state() = default;
  static inline const char* name = "destination";
  std::optional<destination_core> core;
};

} // namespace ranvier
