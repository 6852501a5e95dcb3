#pragma once
#include "messages/log_entry.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranvier {

// What ledger, readers, the join desk and the partial joins' actors say to each other about joins (DESIGN section 8).
// messages/protocol/storage.hpp only declares these names, so that a change here costs few recompilations.

/// A send_join is about to go out: from here on the join may have happened elsewhere. One intent a room and user, the
/// newest. Answered when durable.
struct begin_join {
  std::string room_id, user_id, event_id, server; ///< the server that is asked
  std::int64_t at_ms = 0;
};
/// The join failed and its asker is told so: the intent goes.
struct drop_join {
  std::string room_id, user_id;
};

/// An event of the state at a join, as it was received and checked.
struct join_event {
  std::string event_id;
  bool in_state = false, in_auth_chain = false;
  shared_text event; ///< canonical JSON; empty where only ids were asked for
};

/// A send_join was accepted: roster, spans and (if members were omitted) the partial join, in one commit; the intent
/// goes with it. The host is told after that.
struct record_join {
  std::string room_id, room_version, user_id, event_id, event, joined_via;
  bool members_omitted = false;
  std::vector<std::string> servers_in_room;   ///< if members were omitted
  std::map<std::string, std::string> members; ///< user -> membership as the answer's state shows it, before our join
  std::string acl;                            ///< content of m.room.server_acl, canonical JSON; empty: none
  std::vector<join_event> events;             ///< of the answer, if members were omitted: what the resync needn't fetch
  position since = 0;                         ///< where the host's record says that it joined; 0: at the commit
  bool by_host = false;                       ///< a `partial_join` record: the host made the join itself
};
struct join_recorded {
  bool ok = true;
  std::string problem;
  bool partial = false; ///< the room is partial now; a full one never becomes partial (B94, P14)
  position at = 0;      ///< of the join in our log
  std::int64_t generation = 0;
};

/// A partially joined room as it is stored.
struct partial_join_row {
  std::string room_id, room_version;
  std::string user_id, event_id, event; ///< of the first join; state is asked for at the event's prev_events (W3)
  std::string joined_via;
  std::vector<std::string> servers; ///< candidates: joined_via, then those of the lists of all joins; never ours
  std::vector<std::string> users;   ///< ours that are joined
  position at = 0;                  ///< of the first join
  position since = 0;               ///< what is owed to servers that weren't known of counts from here; at or earlier
  std::int64_t since_ms = 0;        ///< wall clock
  std::int64_t generation = 0;      ///< what belongs to another one is late and is ignored
  std::string progress;             ///< what the resync remembers over a restart (save_join_progress); empty at first
};
struct list_partial_joins {
  std::string room_id; ///< only this one; empty: all
};
struct partial_joins {
  std::vector<partial_join_row> rows; ///< in order of room id
};
struct save_join_progress {
  std::string room_id;
  std::int64_t generation = 0;
  std::string progress;
};

/// The stored events of a room's state at the join.
struct read_join_events {
  std::string room_id;
  bool bodies = false; ///< false: `event` stays empty
};
struct join_events {
  std::vector<join_event> events;
};

/// GET /rooms/{id}/state.
struct read_room_state {
  std::string room_id;
};
struct room_state {
  bool known = false;            ///< the room has a roster
  bool partial = false;          ///< not yet; `state` is empty
  bool kept = false;             ///< the state at a join of ours is stored, whole
  std::string event_id;          ///< of our join
  std::string state, auth_chain; ///< JSON lists of events
};

/// How a server did in a partial join.
struct server_verdict {
  std::string verdict; ///< ok, unreachable, refused, server_error, invalid; empty: not asked yet
  std::string reason;
};

/// The full state has come (DESIGN section 8, completion). `members` is everybody's membership before our join.
struct complete_join {
  std::string room_id;
  std::int64_t generation = 0;
  struct member {
    std::string membership, event_id;
  };
  std::map<std::string, member> members;
  /// The whole state and its auth chain; an event that is stored already may come without its body.
  std::vector<join_event> events;
  std::string acl; ///< as in record_join
  std::map<std::string, server_verdict> servers;
  std::string reason; ///< a sentence for the stream's item
};
/// The join can't be completed, or isn't to be (abandoned by rule or by hand).
struct end_partial_join {
  std::string room_id;
  std::int64_t generation = 0;
  std::string reason;
  std::map<std::string, server_verdict> servers;
};
struct partial_join_ended {
  bool ok = true;
  std::string problem;
  bool current = false;              ///< false: that generation had ended before, nothing was done
  std::vector<std::string> affected; ///< servers that are owed something they lacked
};

/// GET /rooms/{id}, GET /partial_joins: {"partial_joins": [...]} with what the actors know.
struct describe_joins {
  std::string room_id; ///< only this one; empty: all
};

} // namespace ranvier
