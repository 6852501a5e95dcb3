#pragma once
#include "actors/inbound_devices.hpp"
#include "messages/canonical_json.hpp"
#include "messages/event.hpp"
#include "messages/protocol/storage.hpp"

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What judging needs to know of a room.
struct room_facts {
  std::string version; ///< empty: not known
  std::string acl;     ///< content of m.room.server_acl, or empty
};
using room_book = std::map<std::string, room_facts>;

/// A remote key that a signature names.
struct key_question {
  std::string server, key_id;
  std::int64_t valid_at_ms = 0; ///< 0: no demand (K8)
  auto operator<=>(const key_question&) const = default;
};
/// The answers; an empty text: not to be had.
using key_book = std::map<key_question, std::string>;

/// The envelope of a transaction (B104: nothing but the envelope fails the whole of it).
struct envelope {
  std::string errcode, problem; ///< not empty: 400, or 403 if the body names another origin (A8)
  int status = 200;
  std::vector<simdjson::dom::element> pdus, edus; ///< views into the document
};
envelope open_transaction(simdjson::dom::element body, std::string_view origin);

/// I6. An empty acl allows everyone.
bool acl_allows(std::string_view acl, std::string_view server);

/// An EDU, judged alone (I8, U1-U9).
struct edu_verdict {
  enum class what : std::uint8_t { drop, edu, to_device, device_list } is = what::drop;
  std::string problem;     ///< of a drop, and of a device list's update that can't be used as it came
  std::string json;        ///< the stream item's members
  std::string message_key; ///< to_device: "sender|message_id"
  std::vector<inbound_device_change> devices; ///< device_list: what it says; to_device: devices that it names
};
/// `rooms` must have an entry for each room that rooms_of_edu named: a room without one is treated as denied.
edu_verdict judge_edu(simdjson::dom::element edu, std::string_view origin, std::string_view server_name,
                      const room_book& rooms);
/// Rooms whose ACL an EDU is subject to (I5).
void rooms_of_edu(simdjson::dom::element edu, std::set<std::string>& rooms);

/// What to do with a transaction, in full.
struct inbound_result {
  std::vector<stream_item> items;                    ///< to-device first, so that keys come before what they decrypt
  std::vector<std::string> message_keys;             ///< of the to_device items, in their order
  std::vector<inbound_device_change> device_changes; ///< updates in their order, then devices that messages named
  std::string answer;                                ///< body of the 200 (I1)
  std::size_t pdus = 0, edus = 0;                    ///< passed on
  std::vector<std::string> refused;                  ///< sentences, for the log
};

/// Judges one transaction in three steps, each with what the step before asked for. Pure; one thread.
class inbound_judge {
public:
  /// `parts` must not have a problem; its document must outlive this.
  inbound_judge(envelope parts, std::string origin, std::string server_name);
  /// Rooms to look up, at most max_rooms.
  std::set<std::string> rooms() const;
  /// Looks at every PDU; tells whose keys are needed.
  std::set<key_question> look(room_book rooms);
  inbound_result judge(const key_book& keys) const;

  static constexpr std::size_t max_rooms = 500;

private:
  struct looked_at {
    pdu_shape shape;
    std::string answer_id;                ///< the key of its entry in the answer
    std::string error;                    ///< refused
    std::optional<device_mention> device; ///< what an encrypted event says that it came from
    bool id_known = false, dated_keys = false, version_known = false;
  };
  std::optional<bool> verified(const looked_at& pdu, const key_book& keys) const;
  key_question question(const looked_at& pdu, const std::string& server, const std::string& key_id) const;

  envelope parts_;
  std::string origin_, server_name_;
  room_book rooms_;
  std::vector<looked_at> pdus_;
};

} // namespace ranvier
