#pragma once
#include "messages/log_entry.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace ranvier {

// Device lists and keys (DESIGN section 7): what is asked of readers and ledger, and of the destination whose server
// owns a list.

// --- our own users' lists, going out --------------------------------------------------------------------------------

/// The device-list EDUs that a destination is owed in (after, upto], as the content stands now.
struct read_device_updates {
  std::string destination;
  position after = 0, upto = 0;
  std::size_t max_edus = 100, max_bytes = 1 << 20;
  std::vector<std::string> first;       ///< users whose updates come first, wherever they stand (to-device senders)
  std::map<std::string, position> sent; ///< user -> everything of it up to there went ahead of the cursor already
  std::vector<std::string> throttled;   ///< users whose updates may not go now
  std::int64_t shares_before_ms = 0;    ///< share entries appended later than this wait (join_update_delay)
};
struct device_update {
  std::string user;
  std::string edu;      ///< canonical JSON of the whole EDU
  position through = 0; ///< of its user all is told up to here once it is at the peer
  bool signing = false; ///< m.signing_key_update
};
struct device_updates {
  bool ok = true;
  std::string problem;
  std::vector<device_update> list; ///< those of `first` users, then in log order; each user's in order
  position through = 0;            ///< once these are at the peer nothing in (after, through] is owed (but `sent`)
  bool more = false;               ///< something owed remains that may go now
  /// What it is owed below its cursor since a partial join ended: of this room (its row), told up to this position.
  std::vector<std::pair<std::int64_t, position>> extras;
  std::int64_t next_share_ms = 0; ///< wall clock: when the earliest waiting share entry was appended; 0: none waits
};

/// GET /user/devices/{user} of a local user (Q1).
struct read_own_list {
  std::string user;
};
struct own_list {
  bool known = false; ///< false: 404
  std::string json;
};

/// What a keys query finds here. Users map to device ids, an empty list means all.
struct find_known_keys {
  std::map<std::string, std::vector<std::string>> users;
  std::string requester;       ///< local user whose own user-signing key is added; empty: none
  bool for_federation = false; ///< only local users; no user-signing keys; names as configured
};
enum class list_state : std::uint8_t {
  own,        ///< a local user, answered in full
  fresh,      ///< tracked and true
  stale,      ///< a list is held, but it may be wrong
  not_held,   ///< shares a room; its list was never fetched, or isn't trusted any more
  not_shared, ///< shares no complete room with us: nothing is kept of it, queries go out
  too_large   ///< over [limits] devices_per_user: never kept
};
struct known_keys_of_user {
  list_state state = list_state::not_shared;
  std::map<std::string, std::string> devices; ///< device id -> DeviceKeys with unsigned.device_display_name
  std::string master_key, self_signing_key, user_signing_key; ///< canonical JSON; empty: none
  std::string cause;                                          ///< why it is stale
};
struct known_keys {
  std::map<std::string, known_keys_of_user> users;
};

struct count_one_time_keys {
  std::string user, device;
};
struct one_time_key_counts {
  std::map<std::string, std::int64_t> left; ///< algorithm -> keys left
  std::vector<std::string> unused_fallback_types;
};
/// One-time keys of local users, handed out once ever, oldest first, then the fallback key (Q5). A write.
struct claim_own_keys {
  std::map<std::string, std::map<std::string, std::string>> wanted; ///< user -> device -> algorithm
};
struct claimed_own_keys {
  bool ok = true;
  std::string problem;
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>>
      keys; ///< user, device, key id -> key
};

// --- remote users' lists, coming in ---------------------------------------------------------------------------------

/// m.device_list_update (U10), checked in shape.
struct device_list_edu {
  std::string user, device;
  std::int64_t stream_id = 0;
  std::vector<std::int64_t> prev_ids;
  bool deleted = false;
  std::string keys;         ///< canonical JSON; empty: none
  std::string display_name; ///< empty: none
};
/// m.signing_key_update (U12).
struct signing_key_edu {
  std::string user, master_key, self_signing_key; ///< canonical JSON; empty: not given
};
/// A to-device key request or an encrypted event named a device of a remote user.
struct device_mention {
  std::string user, device;
};
/// An EDU about this user couldn't be used as it came: the list must be fetched.
struct unusable_update {
  std::string user, why;
};
using inbound_device_change = std::variant<device_list_edu, signing_key_edu, device_mention, unusable_update>;

/// The outcome of a resync, to be stored. Answered when durable.
struct remote_device {
  std::string device, keys, display_name; ///< keys, display_name: empty if none
};
struct save_device_list {
  std::string user;
  std::int64_t marks = 0; ///< of the stale mark when the request began: what came after it keeps the mark
  enum class outcome : std::uint8_t { list, too_large, refused, failed } is = outcome::failed;
  std::int64_t stream_id = 0;
  std::vector<remote_device> devices;
  std::string master_key, self_signing_key;
  std::string problem;              ///< of refused (404, 403, malformed) and failed (the server's own trouble)
  std::int64_t next_attempt_ms = 0; ///< refused: wall clock; the user's own wait
  int failures = 0;                 ///< refused, in a row
  std::int64_t began_ms = 0;        ///< wall clock when the request began; 0: not known
};
struct device_list_saved {
  bool ok = true;
  std::string problem;
  bool still_stale = false;
  std::int64_t marks = 0; ///< of the user when this was written; 0: nothing is kept of it
};
/// Marks lists stale by hand or by suspicion. Only users whose list is tracked, or who share a room.
struct mark_stale {
  std::vector<std::string> users;
  std::string cause;
};

struct list_stale {
  std::string server; ///< empty: of all
};
struct stale_user {
  std::string user, server, cause, problem;
  std::int64_t marks = 0, since_ms = 0,
               next_attempt_ms = 0; ///< wall clock; next_attempt_ms 0: as soon as the gate lets
  int failures = 0;
};
struct stale_users {
  std::vector<stale_user> list;
};

/// device_lists of the stream in (from, to] as one local user sees them (API section 3.3).
struct find_device_changes {
  std::string user;
  position from = 0, to = 0;
};
struct device_changes {
  std::vector<std::string> changed, left;
  bool limited = false;
};

} // namespace ranvier
