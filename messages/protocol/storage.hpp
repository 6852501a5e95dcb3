#pragma once
#include "messages/device_lists.hpp"
#include "messages/gate_row.hpp"
#include "messages/protocol/common.hpp"
#include "messages/quarantine.hpp"
#include "messages/records.hpp"

#include <optional>
#include <vector>

namespace ranvier {

// Joins: see messages/joins.hpp.
struct begin_join;
struct drop_join;
struct record_join;
struct join_recorded;
struct save_join_progress;
struct complete_join;
struct end_partial_join;
struct partial_join_ended;
struct list_partial_joins;
struct partial_joins;
struct read_join_events;
struct join_events;
struct read_room_state;
struct room_state;
struct describe_joins;
// An operator's drop: see messages/introspection.hpp.
struct owed_dropped;

// --- ledger: writes ------------------------------------------------------------------------------------------------

/// Parsed feed lines in order. The answer comes after the commit.
struct feed_batch {
  std::vector<feed_line> lines;
};
struct rejection {
  std::uint64_t line = 0;
  std::string errcode, error;
};
struct feed_outcome {
  bool ok = true; ///< false: the store failed (disk full...), nothing of this batch was taken
  std::string problem;
  std::uint64_t accepted = 0, skipped = 0;
  position head = 0;
  std::vector<rejection> rejected;
};

/// All that one transaction carried is at the peer, or let go. Gathered for up to a second; no answer.
struct delivered {
  std::string destination;
  cursors at;                      ///< the new cursors, all three
  std::vector<position> to_device; ///< positions of to-device entries that went (their rows are deleted)
  std::vector<position> ahead;     ///< unused until catch-up shares a transaction with live rooms
  std::int64_t let_go = 0;         ///< items that catch-up let go by rule K, if `let_go_at` doesn't name them
  gate_row gate;                   ///< stored with it
  std::vector<position> let_go_at; ///< events that catch-up let go; those that compaction counted before aren't again
  std::vector<position> pdus;      ///< events that went; compaction may have counted one as let go on its way
  std::vector<position> extras;    ///< events below the cursor that went (DESIGN section 4)
  std::vector<std::pair<std::int64_t, position>> list_extras; ///< device_updates::extras that went
  std::vector<std::int64_t> retried;                          ///< rows of the quarantine that went again and were taken
  std::vector<set_aside_item> set_aside;                      ///< what the peer refuses; it goes to the quarantine
};

/// An operator's word about a row of the quarantine: it goes again, or is let go.
struct change_quarantine {
  std::int64_t row = 0;
  bool retry = false; ///< else it is dropped
};
struct quarantine_changed {
  bool ok = true; ///< durable; else `problem`
  std::string problem;
  bool known = false; ///< false: there is no such row
  quarantine_row row;
};
struct list_quarantine {};
struct quarantine_rows {
  std::vector<quarantine_row> list; ///< oldest first
};

/// An operator lets go what a server is owed. Its destination asks, with no transaction in flight; acks that are
/// gathered are written before.
struct let_go_owed {
  std::string destination;
  std::int64_t before_ms = 0; ///< wall clock: only what is older; 0: everything
};

/// The gate changed: stored at once. With `closed_from`/`closed_to`, the interval of positions of a closing.
struct save_gate {
  std::string destination;
  gate_row gate;
  bool opens_interval = false;  ///< the push lane closed now: an interval starts at the head
  bool closes_interval = false; ///< it opened: the interval ends at the head
};
struct save_hold {
  std::string destination, reason, who;
  bool set = true;
  std::int64_t until_ms = 0;
};

/// An inbound transaction, judged: its items for the host and the answer to remember (I3). Answered when durable.
struct stream_item {
  std::string kind;
  std::string json; ///< the item's members without position and kind: `"origin":"...",...` as a whole JSON object
};
struct inbound_transaction {
  std::string origin, txn_id;
  std::string answer; ///< the 200 body
  std::vector<stream_item> items;
  std::vector<std::string> message_keys; ///< "sender|message_id" of each to-device item, in items' order of kind
                                         ///< to_device: those seen before are not passed on again (U9)
  std::int64_t at_ms = 0;
  std::vector<inbound_device_change> device_changes; ///< in the order in which they came
};
struct inbound_outcome {
  bool ok = true;
  bool repeated = false; ///< (origin, txn_id) was known: `answer` is the old one, nothing was written
  bool full = false;     ///< the host's inbox is full (stream_bytes): nothing was written
  std::string answer, problem;
};

struct acknowledge_stream {
  std::string consumer;
  position upto = 0;
};

/// A server's signing keys as they were fetched and checked (K7, K15). Merged, never forgotten.
struct remote_key {
  std::string server, key_id, key; ///< unpadded base64
  std::int64_t valid_until_ms = 0;
  std::int64_t expired_ms = 0; ///< > 0: an old_verify_key
};
struct save_keys {
  std::vector<remote_key> keys;
};

/// Beat: our own presence, once a minute (DESIGN section 5, own outage).
struct heartbeat {
  std::int64_t at_ms = 0;
  std::int64_t reached_ms = 0; ///< wall clock: the latest answer from anybody, as far as known; 0: none yet
};

/// Everyone who was owed a word after our outage has been told, or can't be: the row of that outage goes.
struct announced {
  std::int64_t since_ms = 0;
};

/// What the ledger tells the supervisor: every committed entry in position order, then the new head.
struct committed {
  std::vector<log_entry> entries;
  position head = 0;
};
using commit_listener = caf::typed_actor<caf::reacts_to<local<committed>>>;
struct listen {
  commit_listener to;
};

using ledger_actor =
    caf::typed_actor<caf::replies_to<local<listen>>::with<done>, // from now on tells `to` of what was committed
                     caf::replies_to<local<feed_batch>>::with<local<feed_outcome>>, // host records, in order
                     caf::reacts_to<local<delivered>>,                              // an ack, gathered
                     caf::replies_to<local<change_quarantine>>::with<local<quarantine_changed>>, //
                     caf::replies_to<local<let_go_owed>>::with<local<owed_dropped>>,             //
                     caf::replies_to<local<save_gate>>::with<done>,                              //
                     caf::replies_to<local<save_hold>>::with<done>,                              //
                     caf::replies_to<local<inbound_transaction>>::with<local<inbound_outcome>>,  //
                     caf::replies_to<local<acknowledge_stream>>::with<done>,                     //
                     caf::replies_to<local<save_keys>>::with<done>,                              //
                     caf::replies_to<local<claim_own_keys>>::with<local<claimed_own_keys>>,      //
                     caf::replies_to<local<save_device_list>>::with<local<device_list_saved>>,   //
                     caf::replies_to<local<mark_stale>>::with<done>,                             //
                     caf::replies_to<local<begin_join>>::with<done>,                             //
                     caf::replies_to<local<drop_join>>::with<done>,                              //
                     caf::replies_to<local<record_join>>::with<local<join_recorded>>,            //
                     caf::replies_to<local<save_join_progress>>::with<done>,                     //
                     caf::replies_to<local<complete_join>>::with<local<partial_join_ended>>,     //
                     caf::replies_to<local<end_partial_join>>::with<local<partial_join_ended>>,  //
                     caf::reacts_to<local<heartbeat>>,                                           //
                     caf::replies_to<local<announced>>::with<done>,                              //
                     caf::replies_to<describe>::with<description>>;

// --- reader: queries -----------------------------------------------------------------------------------------------

struct load_destination {
  std::string name;
};
struct loaded_destination {
  bool known = false;          ///< false: no row; `row` then has only the name, and the cursors at the head
  bool nothing_passed = false; ///< an item was set aside and no transaction passed since
  destination_row row;
  position head = 0; ///< of the log now
};

/// What a destination is owed in (cursors, upto], in log order, after the rules of catch-up.
struct read_owed {
  std::string destination;
  cursors after;
  position upto = 0;
  std::size_t max_pdus = 0, max_bytes = 0, max_to_device = 0;
  std::size_t max_extras = 0; ///< events below the cursor; 0: none are read, and they hold nothing back
  position extras_after = 0;  ///< those up to here are in hand
};
struct owed_items {
  bool ok = true;
  std::string problem;
  std::vector<log_entry> pdus, to_device; ///< `servers` is null here
  std::vector<retried_item> retried;      ///< of the quarantine, to go again; read when extras are
  std::vector<log_entry> extras;          ///< to go before `pdus`, of which none come while more of them are left
  bool more_extras = false;
  bool more_pdus = false, more_to_device = false; ///< there is more in (.., upto] beyond what is given
  position pdus_through = 0;             ///< everything owed up to here is given or let go (upto if !more_pdus)
  position to_device_through = 0;        ///< likewise
  std::vector<position> let_go_at;       ///< positions of the PDUs in that stretch that rule K let go, in order
  std::vector<std::string> rooms_behind; ///< rooms that have more beyond what is given, if there is more
};

struct count_owed {
  std::string destination;
  cursors after;
};
struct owed_counts {
  std::int64_t pdus = 0, device_lists = 0, to_device = 0;
  std::int64_t oldest_at_ms = 0; ///< 0: nothing waits
  std::int64_t behind = 0;
};

/// Names of servers that are owed something, in order of name, after `after`; for boot.
struct list_owed {
  std::string after;
  std::size_t limit = 1000;
};
struct names {
  std::vector<std::string> list;
};

/// After an outage of ours: servers with an open gate whose last success is older than it, in order of name.
struct list_unannounced {
  std::string after;
  std::size_t limit = 100;
};
struct unannounced {
  std::int64_t since_ms = 0; ///< 0: nobody is owed an announcement
  std::vector<std::string> list;
};
/// After an outage of our uplink: servers whose gate closed since then because connecting failed, in order of name.
struct list_unreachable {
  std::int64_t since_ms = 0;
  std::string after;
  std::size_t limit = 100;
};
/// Servers to which connecting began to fail after the last success with anyone; for boot.
struct find_unreachable {};
struct found_unreachable {
  std::vector<std::string> list; ///< at most 100
  std::int64_t since_ms = 0;     ///< of the first of them
};

/// All destinations, in order of name (the listing calls; the supervisor adds what actors know).
struct list_destinations {};
struct destination_rows {
  std::vector<destination_row> rows;
  position head = 0;
};

struct read_stream {
  std::string consumer;
  bool has_after = false;
  position after = 0;
  std::size_t limit = 100;
};
struct stream_page {
  std::string instance;
  std::vector<std::pair<position, stream_item>> items;
  position oldest = 0, head = 0, reserved = 0; ///< oldest kept position (head + 1 if none), newest, reserved bound
};

struct find_transaction {
  std::string origin, txn_id;
};
struct found_transaction {
  bool known = false;
  std::string answer;
};
struct find_keys {
  std::string server;
};
struct found_keys {
  std::vector<remote_key> keys;
};
struct find_room {
  std::string room_id;
  bool with_members = false; ///< they and the servers are told too: of a large room that is a lot
};
struct found_room {
  bool known = false;
  std::string version;                                      ///< empty if not known
  std::string acl;                                          ///< content of m.room.server_acl, canonical JSON, or empty
  std::vector<std::pair<std::string, std::string>> members; ///< user, membership
  std::vector<std::string> servers; ///< remote servers with a joined member; while partial also those of the lists
  bool partial = false;             ///< a partial join of it isn't complete
  bool ours_joined = false;         ///< a user of ours is joined
};
struct find_source {
  std::string source;
};
struct found_source {
  bool known = false;
  std::int64_t seq = 0;
};
struct find_rooms_of {
  std::string destination;
};

using reader_actor = caf::typed_actor<caf::replies_to<local<load_destination>>::with<local<loaded_destination>>,     //
                                      caf::replies_to<local<read_owed>>::with<local<owed_items>>,                    //
                                      caf::replies_to<local<count_owed>>::with<local<owed_counts>>,                  //
                                      caf::replies_to<local<list_owed>>::with<local<names>>,                         //
                                      caf::replies_to<local<list_unannounced>>::with<local<unannounced>>,            //
                                      caf::replies_to<local<list_unreachable>>::with<local<names>>,                  //
                                      caf::replies_to<local<find_unreachable>>::with<local<found_unreachable>>,      //
                                      caf::replies_to<local<list_destinations>>::with<local<destination_rows>>,      //
                                      caf::replies_to<local<list_quarantine>>::with<local<quarantine_rows>>,         //
                                      caf::replies_to<local<read_stream>>::with<local<stream_page>>,                 //
                                      caf::replies_to<local<find_transaction>>::with<local<found_transaction>>,      //
                                      caf::replies_to<local<find_keys>>::with<local<found_keys>>,                    //
                                      caf::replies_to<local<find_room>>::with<local<found_room>>,                    //
                                      caf::replies_to<local<find_source>>::with<local<found_source>>,                //
                                      caf::replies_to<local<find_rooms_of>>::with<local<names>>,                     //
                                      caf::replies_to<local<read_device_updates>>::with<local<device_updates>>,      //
                                      caf::replies_to<local<read_own_list>>::with<local<own_list>>,                  //
                                      caf::replies_to<local<find_known_keys>>::with<local<known_keys>>,              //
                                      caf::replies_to<local<count_one_time_keys>>::with<local<one_time_key_counts>>, //
                                      caf::replies_to<local<find_device_changes>>::with<local<device_changes>>,      //
                                      caf::replies_to<local<list_stale>>::with<local<stale_users>>,                  //
                                      caf::replies_to<local<list_partial_joins>>::with<local<partial_joins>>,        //
                                      caf::replies_to<local<read_join_events>>::with<local<join_events>>,            //
                                      caf::replies_to<local<read_room_state>>::with<local<room_state>>,              //
                                      caf::replies_to<describe>::with<description>>;

} // namespace ranvier
