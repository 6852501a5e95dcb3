#pragma once
#include "actors/actor_facts.hpp"
#include "actors/join_keys.hpp"
#include "actors/partial_join.hpp"
#include "actors/partial_join_plan.hpp"
#include "messages/join_state.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

struct partial_join_state;
using partial_join_self = partial_join_actor::stateful_pointer<partial_join_state>;

/// The partial join actor's inside; see actors/partial_join.hpp for its life. One attempt for each candidate that is
/// being asked; the first that has the whole, checked state ends the join, what the others say then counts for nothing.
class partial_join_core {
public:
  partial_join_core(partial_join_self self, partial_join_parts parts, partial_join_row row);
  partial_join_actor::behavior_type make_behavior();
  /// Whoever waits for the end is told how it went. Nobody is left without an answer when the actor goes.
  void answer_askers(bool ok, const std::string& problem);

private:
  struct attempt {
    std::string server;
    std::optional<join_state> state;
    std::deque<std::string> to_ask; ///< events to be fetched one by one
    std::size_t outstanding = 0;    ///< requests, or keys
    bool may_probe = false;         ///< it was heard from: its closed gate may let the first question pass
    std::string problem;            ///< the first that went wrong
    candidate_answer verdict = candidate_answer::ok;
    join_keys keys;
  };
  using attempt_ptr = std::shared_ptr<attempt>;

  // partial_join_core.cpp: life, whom to ask, the end
  void begin();
  void step();
  void heard(const std::string& server);
  void arm();
  void failed(const attempt_ptr& one, candidate_answer verdict, const std::string& why);
  void complete(const attempt_ptr& one);
  void abandon(const std::string& reason);
  void leave(const caf::error& reason);
  void quit_now(const std::string& problem);
  void look_for_candidates();
  caf::result<done> obey(const operate_join& order);
  void save_progress();
  description describe_me() const;
  std::int64_t wall_ms() const { return parts_.common->wall_ms(); }
  bool is_late(const attempt_ptr& one) const { return ending_ || !running_.contains(one->server); }

  // partial_join_requests.cpp: one candidate's attempt
  /// A tick of this generation goes on judging; a timer's is never that.
  static constexpr std::uint64_t judge_more = 0;
  void ask_ids(const attempt_ptr& one);
  void ask_missing(const attempt_ptr& one);
  void ask_events(const attempt_ptr& one);
  void event_answered(const attempt_ptr& one, const std::string& id, const pulled& got);
  void ask_whole(const attempt_ptr& one);
  void ask_keys(const attempt_ptr& one);
  void ask_notary(const attempt_ptr& one, keys_wanted missing);
  void judge(const attempt_ptr& one);
  void go_on_judging();
  template <class Then> void ask(const attempt_ptr& one, std::string uri, Then then);

  partial_join_self self_;
  partial_join_parts parts_;
  partial_join_row row_;
  actor_facts facts_;
  std::optional<room_version_rules> rules_;
  std::vector<join_event> known_; ///< of the join's answer
  partial_join_plan plan_;
  std::map<std::string, attempt_ptr> running_;
  std::map<std::string, std::int64_t> heard_ms_; ///< wall clock
  std::set<std::string> hurried_;                ///< to be asked as a probe
  std::deque<attempt_ptr> to_judge_;             ///< each with a tick under way
  bool ready_ = false, ending_ = false;
  std::vector<caf::typed_response_promise<done>> askers_; ///< of `abandon`: the ledger hasn't said yet
  std::optional<caf::error> leaving_;                     ///< it was told to go, and goes when they are answered
  std::string saved_progress_;
  std::uint64_t timer_generation_ = 0;
  std::int64_t timer_due_ms_ = 0; ///< wall clock; 0: none
};

struct partial_join_state {
  partial_join_state() = default;
  static inline const char* name = "partial_join";
  std::optional<partial_join_core> core;
};

} // namespace ranvier
