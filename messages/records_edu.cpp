#include "messages/ids.hpp"
#include "messages/record_fields.hpp"
#include "messages/to_device.hpp"

#include <algorithm>
#include <set>

namespace ranvier {

namespace {

namespace dom = simdjson::dom;

/// Those that the engine makes itself, from records that say what happened.
void refuse_ours(std::string_view edu_type) {
  if (edu_type == "m.device_list_update") bad_value("m.device_list_update is made by the engine: feed \"device\"");
  if (edu_type == "m.signing_key_update")
    bad_value("m.signing_key_update is made by the engine: feed \"cross_signing\"");
  if (edu_type == "m.direct_to_device") bad_value("m.direct_to_device is made by the engine: feed \"to_device\"");
  if (edu_type == "m.read.private") bad_value("m.read.private must not leave the server");
}

/// U1: one state per room and user; a conforming peer drops what is said for users of others.
std::string typing_key(const fields& content, std::string_view ours) {
  content.need("typing");
  content.flag("typing");
  return "m.typing|" + content.room("room_id") + '|' + content.local_user("user_id", ours);
}

/// U2, U3: a receipt replaces only one of the same room, type, user and thread, so the key is all that it touches.
std::string receipt_key(const fields& content, std::string_view ours) {
  std::set<std::string> touched;
  for (auto [room, by_type] : content.object()) {
    if (!is_room_id(room)) bad_value("\"content\" of m.receipt holds " + in_quotes(room) + ", which is no room id");
    auto room_path = content.name(room);
    for (auto [type, by_user] : fields_of(by_type, room_path).object()) {
      if (type == "m.read.private") bad_value("\"content\" holds m.read.private, which must not leave the server");
      auto type_path = room_path + '.' + std::string(type);
      for (auto [user, receipt] : fields_of(by_user, type_path).object()) {
        if (!is_user_id(user)) bad_value('"' + type_path + "\" holds " + in_quotes(user) + ", which is no user id");
        if (server_of(user) != ours)
          bad_value('"' + type_path + "\" holds " + in_quotes(user) + ": only receipts of our own users are sent (U4)");
        fields one = fields_of(receipt, type_path + '.' + std::string(user));
        auto thread = one.find("data") ? string_member(*one.find("data"), "thread_id") : std::nullopt;
        touched.insert(std::string(room) + '|' + std::string(type) + '|' + std::string(user) + '|' +
                       std::string(thread.value_or("")));
      }
    }
  }
  std::string key = "m.receipt";
  for (const auto& one : touched)
    key += '|' + one;
  return key;
}

/// U5: one state per user; an update of several users replaces one of the same users.
std::string presence_key(const fields& content, std::string_view ours) {
  dom::array push;
  if (content.need("push").get(push) != simdjson::SUCCESS) bad_shape("\"content.push\" must be a list");
  std::set<std::string> users;
  for (dom::element each : push)
    users.insert(fields_of(each, "content.push[]").local_user("user_id", ours));
  std::string key = "m.presence";
  for (const auto& user : users)
    key += '|' + user;
  return key;
}

std::string default_key(std::string_view edu_type, const fields& content, std::string_view ours) {
  if (edu_type == "m.typing") return typing_key(content, ours);
  if (edu_type == "m.receipt") return receipt_key(content, ours);
  if (edu_type == "m.presence") return presence_key(content, ours);
  return {};
}

std::map<std::string, std::string> read_devices(const fields& devices) {
  std::map<std::string, std::string> out;
  for (auto [device, content] : devices.object()) {
    if (device.empty() || device.size() > max_id_bytes || has_nul(device))
      bad_value('"' + devices.name(device) + "\": a device id has 1 to 255 bytes and no NUL");
    auto path = devices.name(device);
    fields_of(content, path);
    out.emplace(device, canonical_member(content, path));
  }
  return out;
}

/// Larger than an EDU even if it went alone (CASES B85): nothing of the record is queued.
void refuse_too_large(const to_device_record& message) {
  for (const auto& part : split_to_device(message))
    if (part.edu.size() > max_to_device_edu_bytes)
      too_large("\"messages\" holds a device whose content alone makes an EDU of " + std::to_string(part.edu.size()) +
                " bytes for " + part.destination + ", at most 65536 are allowed");
}

} // namespace

record read_edu(const fields& in, std::string_view server_name) {
  edu_record out;
  out.edu_type = in.text("edu_type");
  refuse_ours(out.edu_type);
  fields content = in.child("content");
  auto key = default_key(out.edu_type, content, server_name);
  out.key = in.find("key") ? in.text("key", 1024) : std::move(key);
  out.content = canonical_member(in.need("content"), "content");
  if (out.content.size() > max_item_bytes) too_large("\"content\" has more than 65536 bytes as canonical JSON");
  out.destinations = in.servers("destinations", server_name);
  if (in.find("room_id")) out.room_id = in.room("room_id");
  if (in.find("user_id")) out.user_id = in.local_user("user_id", server_name);
  int given = int(out.destinations.has_value()) + int(!out.room_id.empty()) + int(!out.user_id.empty());
  if (given != 1)
    bad_shape("give exactly one of \"room_id\", \"destinations\" and \"user_id\"; " + std::to_string(given) +
              " are given");
  return out;
}

record read_to_device(const fields& in, std::string_view server_name) {
  to_device_record out;
  out.sender = in.local_user("sender", server_name);
  out.type = in.text("type");
  out.message_id = in.text("message_id");
  if (code_points(out.message_id) > 32) bad_value("\"message_id\" has more than 32 characters");
  fields messages = in.child("messages");
  for (auto [user, devices] : messages.object()) {
    if (!is_user_id(user))
      bad_value("\"messages\" holds " + in_quotes(user) + ", which is no user id like @name:server");
    if (server_of(user) == server_name)
      bad_value("\"messages\" holds " + in_quotes(user) +
                ", a user of ours: only remote users' messages go through here");
    auto path = messages.name(user);
    out.messages.emplace(user, read_devices(fields_of(devices, path)));
  }
  refuse_too_large(out);
  return out;
}

} // namespace ranvier
