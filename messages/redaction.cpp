#include "messages/redaction.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace ranvier {

namespace {

using names = std::span<const std::string_view>;

// Sorted by age: what all versions keep first.
constexpr std::array<std::string_view, 12> kept_members{
    "event_id", "type",       "room_id", "sender",      "state_key",   "content",
    "hashes",   "signatures", "depth",   "prev_events", "auth_events", "origin_server_ts"};
constexpr std::array<std::string_view, 3> kept_members_before_v11{"prev_state", "origin", "membership"};

constexpr std::array<std::string_view, 8> power_levels{"ban",   "events",        "events_default", "kick", "redact",
                                                       "users", "state_default", "users_default"};

bool has(names all, std::string_view one) { return std::find(all.begin(), all.end(), one) != all.end(); }

/// Whether redaction keeps content[key] whole. `version` is room_version_rules::redaction.
bool keeps_content(std::string_view type, std::string_view key, int version) {
  if (type == "m.room.member")
    return key == "membership" || (version >= 9 && key == "join_authorised_via_users_server");
  if (type == "m.room.create") return version >= 11 || key == "creator";
  if (type == "m.room.join_rules") return key == "join_rule" || (version >= 8 && key == "allow");
  if (type == "m.room.power_levels") return has(power_levels, key) || (version >= 11 && key == "invite");
  if (type == "m.room.history_visibility") return key == "history_visibility";
  if (type == "m.room.aliases") return version < 6 && key == "aliases";
  if (type == "m.room.redaction") return version >= 11 && key == "redacts";
  return false;
}

} // namespace

event_form::event_form(simdjson::dom::element event, const room_version_rules& rules)
    : event_(event), rules_(rules), type_(string_member(event, "type").value_or("")),
      members_(event, rules.number_rule) {}

std::string event_form::hashed_bytes() const {
  return members_.only(
      [](std::string_view key) { return key != "unsigned" && key != "signatures" && key != "hashes"; });
}

bool event_form::keeps_member(std::string_view key) const {
  // In v12 the create event's room_id would be a hash over itself, so it isn't there.
  if (key == "room_id" && type_ == "m.room.create" && !rules_.create_has_room_id) return false;
  return has(kept_members, key) || (rules_.redaction < 11 && has(kept_members_before_v11, key));
}

std::string event_form::redacted_content() const {
  simdjson::dom::object content;
  if (event_["content"].get_object().get(content) != simdjson::SUCCESS) return "{}";
  std::string out;
  json_writer(out, rules_.number_rule).object(content, 1, [this](std::string_view key) {
    return keeps_content(type_, key, rules_.redaction);
  });
  simdjson::dom::object invite;
  if (type_ != "m.room.member" || rules_.redaction < 11 ||
      content["third_party_invite"].get_object().get(invite) != simdjson::SUCCESS)
    return out;
  // v11: of a third-party invite only `signed` stays. Its key sorts last of those that a member event keeps.
  out.pop_back();
  if (out.size() > 1) out += ',';
  out += "\"third_party_invite\":";
  json_writer(out, rules_.number_rule).object(invite, 2, [](std::string_view key) { return key == "signed"; });
  out += '}';
  return out;
}

std::string event_form::event_id(std::string_view signed_bytes) const {
  switch (rules_.event_id) {
  case room_version_rules::id_form::given: return std::string(string_member(event_, "event_id").value_or(""));
  case room_version_rules::id_form::standard_base64: return "$" + base64(sha256(signed_bytes));
  case room_version_rules::id_form::url_base64: return "$" + base64_url(sha256(signed_bytes));
  }
  return {};
}

} // namespace ranvier
