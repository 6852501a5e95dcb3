#pragma once
#include "messages/log_entry.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ranvier {

/// A member that may be absent (unchanged), null (removed) or given: API section 3.1.
template <class T> struct change {
  enum class what : std::uint8_t { unchanged, removed, given } is = what::unchanged;
  T value{};
  bool given() const { return is == what::given; }
  bool removed() const { return is == what::removed; }
};

// The records of the host's feed, one struct a kind, checked in shape. JSON members are kept as canonical JSON text.

struct pdu_record {
  std::string event_id, room_id;
  std::string event;          ///< canonical JSON, as it will be sent
  std::string room_version;   ///< empty if not given
  bool loose_numbers = false; ///< holds numbers that room version 6 and later forbid (C4); no version was given
  std::string type, sender;   ///< of the event
  std::optional<std::string> state_key;                 ///< of the event
  std::string membership;                               ///< content.membership of a member event, else empty
  std::optional<std::vector<std::string>> destinations; ///< instead of the room's servers
  std::vector<std::string> exclude;
};
struct edu_record {
  std::string edu_type, content;
  std::string key;              ///< the newest with the same key wins; empty: none
  std::string room_id, user_id; ///< whose servers; empty if not given
  std::optional<std::vector<std::string>> destinations;
};
struct to_device_record {
  std::string sender, type, message_id;
  std::map<std::string, std::map<std::string, std::string>> messages; ///< remote user -> device or "*" -> content
};
struct roster_record {
  std::string room_id, room_version;
  std::map<std::string, std::string> members; ///< user -> membership
};
struct membership_record {
  std::string room_id, user_id, membership, event_id, room_version;
};
struct device_record {
  std::string user_id, device_id;
  change<std::string> keys, display_name; ///< keys: a DeviceKeys object
  bool deleted = false, initial = false;
};
struct cross_signing_record {
  std::string user_id;
  change<std::string> master_key, self_signing_key, user_signing_key;
};
struct one_time_keys_record {
  std::string user_id, device_id;
  std::map<std::string, std::string> one_time_keys; ///< "alg:id" -> key (a JSON string or object)
  change<std::map<std::string, std::string>> fallback_keys;
};
struct partial_join_record {
  std::string room_id, room_version, user_id, event_id, event, joined_via;
  std::vector<std::string> servers_in_room;
  position since = 0; ///< 0 if not given
};
struct server_acl_record {
  std::string room_id, content;
};
struct room_forgotten_record {
  std::string room_id;
  bool now = false;
};

using record = std::variant<pdu_record, edu_record, to_device_record, roster_record, membership_record, device_record,
                            cross_signing_record, one_time_keys_record, partial_join_record, server_acl_record,
                            room_forgotten_record>;

struct record_problem {
  std::string errcode, error;
};

/// One line of the feed.
struct feed_line {
  std::uint64_t number = 0;                  ///< counted from 1 over the whole request
  std::string source;                        ///< empty if not given
  std::int64_t seq = 0;                      ///< with source
  std::variant<record, record_problem> what; ///< a problem is rejected by the ledger, in order (its seq counts as seen)
};

/// Reads one line (without its end). Never throws; a line that can't be used gives a record_problem whose sentence says
/// what is wrong and what is allowed. `server_name` is ours: it tells local users from remote ones.
feed_line parse_feed_line(std::string_view line, std::uint64_t number, std::string_view server_name);

} // namespace ranvier
