#pragma once
#include "messages/gate_row.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ranvier {

// What operators ask of the store (API section 5: queue, rooms, shape, why). Pure values.

/// What waits for a destination, item by item, in the order in which it would go.
struct read_queue {
  std::string destination;
  cursors after;
  std::size_t limit = 100; ///< of each kind
};
struct queued_item {
  std::string kind; ///< pdu, device, signing, share, to_device
  position pos = 0;
  std::string room_id; ///< of a pdu, a share
  std::string subject; ///< event id, user id, message id
  std::string detail;  ///< the event's type, the device
  std::int64_t at_ms = 0, bytes = 0;
  bool extra = false; ///< owed below the cursor: the end of a partial join
};
struct queue_page {
  std::vector<queued_item> items;
  bool more = false;
  std::int64_t let_go = 0; ///< events in this stretch that rule K lets go
};

/// What waits in the store, over all destinations.
struct read_waiting {
  std::set<std::string> without; ///< whom somebody else counts
};
struct waiting_sums {
  std::int64_t pdus = 0, device_lists = 0, to_device = 0;
  std::int64_t oldest_at_ms = 0; ///< wall clock; 0: nothing waits
  bool whole = true;             ///< false: counting was broken off
  std::int64_t as_of_ms = 0;     ///< wall clock: counted then, not now; 0: now
};

/// What a drop would let go (dry run).
struct read_drop {
  std::string destination;
  cursors after;
  std::int64_t before_ms = 0; ///< wall clock: only what is older; 0: everything
};
struct drop_counts {
  std::int64_t pdus = 0, device_lists = 0, to_device = 0;
};

/// The ledger's answer to let_go_owed.
struct owed_dropped {
  bool ok = true; ///< durable; else `problem`
  std::string problem;
  bool known = false; ///< false: it was never owed anything
  drop_counts counts; ///< what went
  cursors at;         ///< where the cursors stand now
};

struct read_rooms {
  std::string destination;
  cursors after;
  std::string from; ///< rooms after this one, in order of id
  std::size_t limit = 100;
};
struct shared_room {
  std::string room_id, version;
  bool partial = false, shared = true; ///< not shared any more: something still waits for the server
  std::int64_t waiting = 0;            ///< events
  position latest = 0;                 ///< where its newest event stands, of those that we sent; 0: there was none
};
struct rooms_page {
  std::vector<shared_room> rooms;
  bool more = false;
};

/// What waits, by age: for each destination that is owed something, how much is younger than each bound.
struct read_shape {
  std::string glob; ///< of names; empty: all
  std::int64_t now_ms = 0;
  std::vector<std::int64_t> bounds_ms; ///< rising
};
struct shape_row {
  std::string destination;
  std::vector<std::int64_t> counts; ///< one more than bounds: the last is what is older than all of them
  std::int64_t total = 0;
};
struct shape_rows {
  std::vector<shape_row> rows;
  bool whole = true; ///< false: there was no time for all of them
};

/// Where an event is.
struct trace_event {
  std::string event_id;
};
struct owed_server {
  std::string server;
  bool waits = false;  ///< it doesn't have it yet
  bool let_go = false; ///< it waits, but newer events of the room go instead (rule K)
};
struct event_trace {
  bool known = false, stored = false; ///< stored: the event itself is still in the log
  position pos = 0;
  std::int64_t at_ms = 0;
  std::string room_id, type, sender;
  std::vector<owed_server> servers; ///< whom it is owed to, as far as is known; by name
};

/// Who lacks how much of a room (B122).
struct trace_room {
  std::string room_id;
};
struct room_server {
  std::string server;
  std::int64_t behind = 0; ///< events that it would be sent
};
struct room_trace {
  bool known = false, partial = false;
  std::string version;
  std::vector<room_server> servers; ///< those that share it, or are still owed something of it; by name
};

/// How a user's device list stands, whether ours or of another server.
struct trace_user {
  std::string user;
  std::size_t limit = 100;
};
struct user_trace {
  bool known = false, ours = false;
  // Ours.
  std::int64_t version = 0;
  std::size_t servers = 0;          ///< that share a room with it
  std::vector<std::string> lacking; ///< of these: something of its list is on its way; at most `limit`
  std::size_t lacking_total = 0;
  // Another server's.
  std::string server;
  bool tracked = false, held = false, stale = false, too_large = false;
  std::string cause, problem;
  std::int64_t since_ms = 0, next_attempt_ms = 0, failures = 0;
  std::size_t kept_updates = 0; ///< that wait for the end of a partial join
  // Both.
  std::vector<std::string> rooms, partial_rooms; ///< shared; of them those that are partially joined. At most `limit`
};

} // namespace ranvier
