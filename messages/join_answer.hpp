#pragma once
#include "messages/join_rules.hpp"
#include "messages/joins.hpp"
#include "messages/json_slices.hpp"
#include "messages/shared_text.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ranvier {

/// Keys for the events of an answer: server -> key id -> key in base64 (empty: not to be had).
using join_keys = std::map<std::string, std::map<std::string, std::string>>;

/// A send_join answer, read and judged (J4, J6-J8, P2, B92). It may be 100 MB long: the one text that came is held, its
/// events are parsed one by one, twice (once to see what they are and whose keys are needed, once to check signatures),
/// and what the host gets is written as they pass. Pure; work goes on in steps, so that nobody waits for it.
///
/// What makes the whole unusable: broken JSON, no create event or one of another or unknown version, an event of
/// another room, two events for one place in the state, members omitted without a list of servers or without being
/// asked, another event than ours, and a signature that is wrong under a key that is known: that server lies. An event
/// that can't be verified because the key can't be had is passed on; one that isn't an event at all, or that its
/// sender's server never signed, is left out (J8).
class join_answer {
public:
  /// `asked_to_omit`: the request said omit_members=true. `wrapped`: the v1 form, [200, {...}].
  join_answer(shared_text body, bool wrapped, join_offer offer, join_wish wish, bool asked_to_omit);

  /// First reading, some events more. False at its end, or when there is a problem.
  bool look(std::size_t events);
  /// Whose keys are needed: server -> key id -> the earliest origin_server_ts that it signed (K8).
  const std::map<std::string, std::map<std::string, std::int64_t>>& wanted_keys() const { return wanted_; }
  /// Second reading, with what could be had of them. Begins with the first call.
  bool judge(const join_keys& keys, std::size_t events);

  /// Why it can't be used; empty: it can.
  const std::string& problem() const { return problem_; }

  // After judge.
  bool members_omitted() const { return omitted_; }
  const std::vector<std::string>& servers_in_room() const { return servers_; }
  const std::string& event() const { return event_; } ///< the join event, with the resident's signature if it gave one
  std::size_t left_out() const { return left_out_; }
  std::size_t unverified() const { return unverified_; }
  /// For the store; `at` and `since` are left 0. Moves the gathered parts out.
  record_join take_record(const std::string& joined_via);
  /// The host's answer (API 3.3), once. `servers_in_room` is what the room is known to be in.
  std::string take_answer(bool partial, const std::string& joined_via);

private:
  void open();
  void read_servers(std::string_view slice);
  void read_own_event(std::string_view slice);
  std::string problem_of_own_event(const pdu_shape& shape) const;
  void look_at(std::string_view event, bool in_state);
  void look_at_create(std::string_view event, const pdu_shape& shape);
  void judge_event(std::string_view event, bool in_state, const join_keys& keys);
  std::string verdict_on(const pdu_shape& shape, const std::string& signer, const join_keys& keys,
                         bool& verified) const;
  void keep(std::string_view raw, const pdu_shape& shape, bool in_state);
  void learn(std::string_view event, const pdu_shape& shape);
  bool walk(std::size_t events, const join_keys* keys);
  void finish_looking();

  shared_text body_;
  join_offer offer_;
  join_wish wish_;
  bool asked_to_omit_;
  std::string problem_;
  std::string_view state_, auth_chain_;
  bool omitted_ = false, own_event_given_ = false;
  std::string event_;
  std::vector<std::string> servers_;
  std::map<std::string, std::map<std::string, std::int64_t>> wanted_;
  std::optional<item_slices> items_;
  bool judging_ = false, in_state_ = true;
  std::set<std::pair<std::string, std::string>> places_; ///< (type, state_key) of the state
  std::string create_id_;
  std::string out_; ///< the host's answer so far
  std::unordered_map<std::string, std::size_t> records_by_id_;
  std::vector<join_event> records_;
  std::map<std::string, std::string> members_;
  std::string acl_;
  std::size_t left_out_ = 0, unverified_ = 0;
};

} // namespace ranvier
