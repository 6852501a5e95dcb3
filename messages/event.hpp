#pragma once
#include "messages/canonical_json.hpp"
#include "messages/signing.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What differs between room versions 1 to 12 for us (RV).
struct room_version_rules {
  int number = 0;               ///< 1 to 12
  int redaction = 1;            ///< the room version whose redaction rules hold: 1, 6, 8, 9 or 11
  enum class id_form { given, standard_base64, url_base64 } event_id = id_form::url_base64; ///< v1-2, v3, v4+
  numbers number_rule = numbers::strict;  ///< strict from v6 (C4)
  bool key_validity = true;     ///< v5+: keys must be valid at origin_server_ts (K8)
  bool create_has_room_id = true; ///< v12: no room_id in m.room.create, room id = its event id with '!'
};
/// Nothing for a version that we don't know.
std::optional<room_version_rules> rules_of(std::string_view room_version);
/// All versions that we know, in order.
const std::vector<std::string>& known_room_versions();

/// The event as canonical JSON with only what redaction keeps (RV redactions); `without` names further top-level
/// members to leave out. Throws json_problem.
std::string redacted(simdjson::dom::element event, const room_version_rules& rules,
                     std::initializer_list<std::string_view> without = {});
/// hashes.sha256 as it must be (E1).
std::string content_hash(simdjson::dom::element event, const room_version_rules& rules);
/// The event id (E3; of v1-2 the member event_id, empty if it has none).
std::string event_id_of(simdjson::dom::element event, const room_version_rules& rules);

struct signed_event {
  std::string event_id, event; ///< canonical JSON with hashes and our signature
};
/// Adds hashes and our signature (E1, E2). Throws json_problem.
signed_event sign_event(std::string_view event, const room_version_rules& rules, std::string_view entity,
                        const signing_key& key);

/// One PDU as it came, looked at without keys.
struct pdu_shape {
  bool ok = false;
  std::string problem;          ///< why it can't be used (format, size caps E9, canonical JSON C4)
  std::string event_id;         ///< empty if it can't be computed
  std::string room_id, type, sender;
  std::optional<std::string> state_key;
  std::string membership;       ///< of a member event
  std::int64_t origin_server_ts = 0;
  bool hash_ok = false;         ///< false: use the redacted copy (E5)
  std::string event;            ///< canonical JSON as it came; the redacted copy if the hash was wrong
  std::string signed_bytes;     ///< what signatures are over (E2)
  /// Whose signatures are required (E4): sender's server (not for third-party invites), v1-2 the event id's server.
  std::vector<std::string> signers;
  /// server -> key id (ed25519 only) -> signature.
  std::map<std::string, std::map<std::string, std::string>> signatures;
};
/// Never throws. `rules` nothing: the room's version isn't known; then only shape is checked and event_id is empty.
pdu_shape look_at_pdu(simdjson::dom::element pdu, const std::optional<room_version_rules>& rules);

} // namespace ranvier
