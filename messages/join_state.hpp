#pragma once
#include "messages/event.hpp"
#include "messages/joins.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// The full state of a partially joined room, gathered from one server and judged (PROTOCOL P5, P6, R1; DESIGN section
/// 8). What the store has of it needn't come again. Pure. Every step that finds that the server gave what can't be true
/// says so in a sentence; nothing of it may be used then.
///
/// Life: take_ids() -> missing(), as single events (take_event) or as a whole (take_state) -> wanted_keys() -> judge()
/// -> take().
class join_state {
public:
  /// `known`: the store's events of the join, with bodies. `prev_events`: of the join; state events among them belong
  /// to its state and may be missing in an answer of the state before them (W3).
  join_state(std::string room_id, const room_version_rules& rules, const std::vector<join_event>& known,
             std::vector<std::string> prev_events);

  /// The event whose state is asked for.
  const std::string& asked_at() const { return asked_at_; }
  std::string take_ids(std::string_view answer);
  /// Events whose bodies are to come. Empty: all are there.
  const std::set<std::string>& missing() const { return missing_; }
  /// So much is missing that the whole costs less than asking one by one.
  bool wants_whole() const;
  /// The answer to /event (R3). An event that is none of those that are missing is an error.
  std::string take_event(std::string_view answer, const std::string& event_id);
  /// A prev_event that can't be had is let be: the state before it is what there is.
  void do_without(const std::string& prev_event);
  bool is_optional(const std::string& event_id) const { return optional_.contains(event_id); }
  std::string take_state(std::string_view answer);

  /// server -> key id -> the earliest moment at which it signed (0: no demand, K8); of the events that came.
  std::map<std::string, std::map<std::string, std::int64_t>> wanted_keys() const;
  /// Signatures of the next `at_most` events that came, with the keys that could be had (server -> key id -> key,
  /// empty: not to be had). To be called until judged().
  std::string judge(const std::map<std::string, std::map<std::string, std::string>>& keys, std::size_t at_most);
  bool judged() const { return all_judged_; }
  std::size_t unverified() const { return unverified_; }
  /// Events that can't be used, with the reason of each: malformed, too large, unsigned, wrongly signed (J8). The state
  /// is what there is without them.
  const std::map<std::string, std::string>& left_out() const { return left_out_; }

  /// Members, events and ACL for the store; room and generation are the caller's.
  complete_join take();

private:
  struct piece {
    pdu_shape shape; ///< `event` is kept as it goes to the store
    bool in_state = false, in_auth_chain = false, came = false;
  };
  std::string put(std::string_view event, const std::string& expected_id, bool in_state, bool in_auth_chain);
  std::string leave_out(const pdu_shape& shape, const std::string& problem);

  std::string room_id_;
  room_version_rules rules_;
  std::string asked_at_;
  std::vector<std::string> prev_events_;
  std::map<std::string, piece> pieces_;
  std::string create_id_;
  std::set<std::string> state_ids_, auth_ids_, missing_, optional_;
  std::map<std::string, std::string> left_out_; ///< event id, why
  std::string judged_up_to_;                    ///< event id
  bool all_judged_ = false;
  std::size_t unverified_ = 0;
};

} // namespace ranvier
