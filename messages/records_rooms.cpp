#include "messages/ids.hpp"
#include "messages/record_fields.hpp"

namespace ranvier {

record read_roster(const fields& in, std::string_view) {
  roster_record out;
  out.room_id = in.room("room_id");
  out.room_version = room_version_of(in, true);
  for (auto [user, value] : in.child("members").object()) {
    if (!is_user_id(user))
      bad_value("\"members\" holds " + in_quotes(user) + ", which is no user id like @name:server");
    auto path = "members." + std::string(user);
    out.members.emplace(user, membership_of(string_of(value, path), path));
  }
  return out;
}

record read_membership(const fields& in, std::string_view) {
  membership_record out;
  out.room_id = in.room("room_id");
  out.user_id = in.user("user_id");
  out.membership = membership_of(string_of(in.need("membership"), "membership"), "membership");
  if (in.find("event_id")) out.event_id = in.event("event_id");
  out.room_version = room_version_of(in, false);
  return out;
}

record read_server_acl(const fields& in, std::string_view) {
  server_acl_record out;
  out.room_id = in.room("room_id");
  // null: the room has no ACL any more (API section 3.1), kept as an empty text.
  if (in.is_null("content")) return out;
  // Its numbers are of no interest and it is never signed by us, so an old room's may be odd.
  in.child("content");
  out.content = canonical_member(in.need("content"), "content", numbers::lenient);
  if (out.content.size() > max_item_bytes) too_large("\"content\" has more than 65536 bytes");
  return out;
}

record read_room_forgotten(const fields& in, std::string_view) {
  room_forgotten_record out;
  out.room_id = in.room("room_id");
  out.now = in.flag("now");
  return out;
}

} // namespace ranvier
