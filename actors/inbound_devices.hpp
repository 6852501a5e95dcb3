#pragma once
#include "messages/canonical_json.hpp"
#include "messages/device_lists.hpp"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ranvier {

/// What an EDU about a device list says, or why it says nothing.
struct device_verdict {
  std::optional<inbound_device_change> change;
  std::string problem; ///< the sentence for the log, also of one that only tells that the list must be fetched
};
/// m.device_list_update (U10, U11). Of a user of another server: nothing. One that can't be used as it came means that
/// the list must be fetched; lenient about the shape of the keys, strict about whose they are (L18).
device_verdict read_device_list_update(simdjson::dom::element content, std::string_view origin);
/// m.signing_key_update (U12).
device_verdict read_signing_key_update(simdjson::dom::element content, std::string_view origin);

/// Canonical JSON of a peer's DeviceKeys or CrossSigningKey, or why it can't be kept. `device` empty: a cross-signing
/// key, which must have exactly one key (U13).
struct read_keys {
  std::string json, problem;
};
read_keys keys_from_peer(simdjson::dom::element keys, std::string_view user, std::string_view device);

/// Devices that a to-device message from `sender` names as its own: in m.room_key_request and m.room.encrypted (B74).
std::vector<inbound_device_change> devices_named_by(std::string_view sender, std::string_view type,
                                                    simdjson::dom::object messages);
/// The device that an encrypted event of one of the origin's users names as its sender's.
std::optional<device_mention> device_named_by(simdjson::dom::element event, std::string_view origin);

} // namespace ranvier
