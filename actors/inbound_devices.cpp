#include "actors/inbound_devices.hpp"

#include "messages/ids.hpp"
#include "messages/record_fields.hpp"

namespace ranvier {
namespace {

namespace dom = simdjson::dom;

/// Keys need no more than five levels.
constexpr int max_keys_depth = 10;

/// N6: lists of users with an empty or historical localpart aren't kept.
bool is_listed(std::string_view user) {
  const auto localpart = user.substr(1, user.find(':') - 1);
  if (localpart.empty()) return false;
  for (const char c : localpart)
    if (c < '!' || c > '~') return false;
  return true;
}

/// The user that an update is about, or nothing with the reason.
std::optional<std::string> user_of(dom::element content, std::string_view origin, std::string& problem) {
  const auto user = string_member(content, "user_id");
  if (!user || !is_user_id(*user) || server_of(*user) != origin) {
    problem = "a device list update for a user of another server";
    return {};
  }
  if (!is_listed(*user)) {
    problem = "a device list update for a user whose id isn't allowed outside of events";
    return {};
  }
  return std::string(*user);
}

device_verdict unusable(std::string user, std::string why) {
  device_verdict out;
  out.problem = "a device list update of " + user + " can't be used: " + why;
  out.change = unusable_update{std::move(user), "an update can't be used: " + std::move(why)};
  return out;
}

/// Absent and null are alike; anything but a string is nothing.
bool text_or_none(dom::element from, const char* key, std::string& out) {
  dom::element found;
  if (from[key].get(found) || found.is_null()) return true;
  std::string_view text;
  if (found.get(text)) return false;
  out = text;
  return true;
}

bool flag_or_none(dom::element from, const char* key, bool& out) {
  dom::element found;
  return from[key].get(found) || found.is_null() || !found.get(out);
}

bool ids_or_none(dom::element from, const char* key, std::vector<std::int64_t>& out) {
  dom::element found;
  if (from[key].get(found) || found.is_null()) return true;
  dom::array list;
  if (found.get(list)) return false;
  for (const auto one : list) {
    std::int64_t id = 0;
    if (one.get(id)) return false;
    out.push_back(id);
  }
  return true;
}

/// Empty if the object may be kept: whose it says it is, and its size.
std::string trouble_with(dom::element keys, std::string_view user, std::string_view device) {
  if (!keys.is_object()) return "keys that are no object";
  dom::element found;
  if (!keys["user_id"].get(found) && string_member(keys, "user_id") != user) return "keys of another user";
  if (!device.empty() && !keys["device_id"].get(found) && string_member(keys, "device_id") != device)
    return "keys of another device";
  if (depth_of(keys) > max_keys_depth) return "keys nested more than 10 levels deep";
  if (has_nul(keys)) return "keys with a NUL character";
  if (!device.empty()) return {};
  dom::object by_id;
  dom::element key;
  if (keys["keys"].get(by_id) || by_id.size() != 1 || (*by_id.begin()).value.get(key) || !key.is_string())
    return "a cross-signing key without exactly one key";
  return {};
}

} // namespace

read_keys keys_from_peer(dom::element keys, std::string_view user, std::string_view device) {
  read_keys out;
  out.problem = trouble_with(keys, user, device);
  if (!out.problem.empty()) return out;
  try {
    out.json = canonical_json(keys);
    if (out.json.size() <= max_item_bytes) return out;
    out.problem = "keys of more than 65536 bytes";
  } catch (const json_problem& bad) {
    out.problem = std::string("keys that nobody can have signed: ") + bad.what(); // C2
  }
  out.json.clear();
  return out;
}

device_verdict read_device_list_update(dom::element content, std::string_view origin) {
  device_verdict out;
  auto user = user_of(content, origin, out.problem);
  if (!user) return out;
  device_list_edu edu;
  edu.user = std::move(*user);
  edu.device = string_member(content, "device_id").value_or("");
  if (edu.device.empty() || edu.device.size() > max_id_bytes || has_nul(edu.device))
    return unusable(edu.user, "device_id must be a text of 1 to 255 bytes without NUL");
  if (content["stream_id"].get(edu.stream_id)) return unusable(edu.user, "stream_id is missing or is no integer");
  if (!ids_or_none(content, "prev_id", edu.prev_ids)) return unusable(edu.user, "prev_id is no list of integers");
  if (!flag_or_none(content, "deleted", edu.deleted)) return unusable(edu.user, "deleted is no boolean");
  if (!text_or_none(content, "device_display_name", edu.display_name) || has_nul(edu.display_name) ||
      edu.display_name.size() > max_item_bytes)
    return unusable(edu.user, "device_display_name is no text without NUL of at most 65536 bytes");
  dom::element keys;
  if (!edu.deleted && !content["keys"].get(keys) && !keys.is_null()) {
    auto read = keys_from_peer(keys, edu.user, edu.device);
    if (!read.problem.empty()) return unusable(edu.user, read.problem);
    edu.keys = std::move(read.json);
  }
  if (edu.deleted) edu.display_name.clear();
  out.change = std::move(edu);
  return out;
}

device_verdict read_signing_key_update(dom::element content, std::string_view origin) {
  device_verdict out;
  auto user = user_of(content, origin, out.problem);
  if (!user) return out;
  signing_key_edu edu;
  edu.user = std::move(*user);
  for (const auto& [name, to] :
       {std::pair{"master_key", &edu.master_key}, {"self_signing_key", &edu.self_signing_key}}) {
    dom::element key;
    if (content[name].get(key) || key.is_null()) continue;
    auto read = keys_from_peer(key, edu.user, {});
    if (!read.problem.empty()) return unusable(edu.user, read.problem);
    *to = std::move(read.json);
  }
  if (edu.master_key.empty() && edu.self_signing_key.empty()) out.problem = "m.signing_key_update without a key";
  else out.change = std::move(edu);
  return out;
}

std::vector<inbound_device_change> devices_named_by(std::string_view sender, std::string_view type,
                                                    dom::object messages) {
  const auto* member = type == "m.room_key_request" ? "requesting_device_id"
                       : type == "m.room.encrypted" ? "device_id"
                                                    : nullptr;
  std::vector<inbound_device_change> out;
  if (!member || !is_listed(sender)) return out;
  std::set<std::string_view> seen;
  for (const auto user : messages) {
    dom::object devices;
    if (user.value.get(devices)) continue;
    for (const auto device : devices) {
      const auto named = device.value.is_object() ? string_member(device.value, member) : std::nullopt;
      if (!named || named->empty() || named->size() > max_id_bytes || has_nul(*named)) continue;
      if (seen.insert(*named).second) out.emplace_back(device_mention{std::string(sender), std::string(*named)});
    }
  }
  return out;
}

std::optional<device_mention> device_named_by(dom::element event, std::string_view origin) {
  if (string_member(event, "type") != "m.room.encrypted") return {};
  const auto sender = string_member(event, "sender");
  dom::element content;
  if (!sender || !is_user_id(*sender) || server_of(*sender) != origin || !is_listed(*sender)) return {};
  if (event["content"].get(content) || !content.is_object()) return {};
  const auto device = string_member(content, "device_id");
  if (!device || device->empty() || device->size() > max_id_bytes || has_nul(*device)) return {};
  return device_mention{std::string(*sender), std::string(*device)};
}

} // namespace ranvier
