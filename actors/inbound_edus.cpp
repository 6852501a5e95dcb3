// The EDUs of an inbound transaction, each judged alone (PROTOCOL section 11).
#include "actors/inbound.hpp"

#include "messages/ids.hpp"

namespace ranvier {
namespace {

namespace dom = simdjson::dom;
using what = edu_verdict::what;

edu_verdict drop(std::string problem) { return {what::drop, std::move(problem), {}, {}, {}}; }

bool is_user_of(std::string_view user, std::string_view server) {
  return is_user_id(user) && server_of(user) == server;
}

bool allowed_in(const room_book& rooms, const std::string& room_id, std::string_view origin) {
  const auto room = rooms.find(room_id); // not there: beyond max_rooms, nobody looked
  return room != rooms.end() && acl_allows(room->second.acl, origin);
}

/// "{" + members + "}" of texts that are JSON already; std::map orders keys as canonical JSON does.
std::string object_of(const std::map<std::string, std::string>& members) {
  std::string out = "{";
  for (const auto& [key, value] : members) {
    if (out.size() > 1) out += ',';
    append_json_string(out, key);
    out += ':';
    out += value;
  }
  return out += '}';
}

edu_verdict passed_on(std::string_view origin, std::string_view type, const std::string& content) {
  return {what::edu,
          {},
          R"({"origin":)" + json_string(origin) + R"(,"edu_type":)" + json_string(type) + R"(,"content":)" + content +
              "}",
          {},
          {}};
}

edu_verdict judge_typing(dom::element content, std::string_view origin, const room_book& rooms) {
  const auto room = string_member(content, "room_id"), user = string_member(content, "user_id");
  bool typing = false;
  if (!room || !is_room_id(*room) || !user || content["typing"].get(typing))
    return drop("m.typing needs room_id, user_id and typing (a boolean)");
  if (!is_user_of(*user, origin)) return drop("m.typing for a user of another server");
  if (!allowed_in(rooms, std::string(*room), origin))
    return drop("m.typing in a room whose access list denies its server");
  return passed_on(origin, "m.typing", canonical_json(content));
}

/// One user's entry of m.read (U2), or nothing.
std::optional<std::string> receipt_of(dom::element entry) {
  dom::array ids;
  dom::object data;
  std::int64_t ts = 0;
  if (!entry.is_object() || entry["event_ids"].get(ids) || ids.size() != 1) return std::nullopt;
  std::string_view id;
  if (ids.at(0).get(id) || entry["data"].get(data) || entry["data"]["ts"].get(ts)) return std::nullopt;
  dom::element thread;
  if (!entry["data"]["thread_id"].get(thread) && !thread.is_string()) return std::nullopt;
  return canonical_json(entry);
}

edu_verdict judge_receipts(dom::element content, std::string_view origin, const room_book& rooms) {
  std::map<std::string, std::string> kept;
  for (const auto room : dom::object(content)) {
    const std::string room_id(room.key);
    dom::object read;
    if (!is_room_id(room_id) || !allowed_in(rooms, room_id, origin)) continue; // I5: only the denied room's part
    if (!room.value.is_object() || room.value["m.read"].get(read)) continue;   // never m.read.private (U3)
    std::map<std::string, std::string> users;
    for (const auto user : read) {
      if (!is_user_of(user.key, origin)) continue; // U4
      if (auto receipt = receipt_of(user.value)) users[std::string(user.key)] = std::move(*receipt);
    }
    if (!users.empty()) kept[room_id] = R"({"m.read":)" + object_of(users) + "}";
  }
  if (kept.empty()) return drop("m.receipt without one usable receipt of its server's users");
  return passed_on(origin, "m.receipt", object_of(kept));
}

edu_verdict judge_presence(dom::element content, std::string_view origin) {
  dom::array push;
  if (content["push"].get(push)) return drop("m.presence needs a list 'push'");
  std::string kept;
  for (const auto one : push) {
    const auto user = string_member(one, "user_id"), state = string_member(one, "presence");
    if (!user || !state || !is_user_of(*user, origin)) continue;
    if (*state != "online" && *state != "unavailable" && *state != "offline") continue;
    dom::element extra;
    if (!one["last_active_ago"].get(extra) && !extra.is_int64()) continue;
    if (!one["currently_active"].get(extra) && !extra.is_bool()) continue;
    kept += (kept.empty() ? "" : ",") + canonical_json(one);
  }
  if (kept.empty()) return drop("m.presence without one usable entry of its server's users");
  return passed_on(origin, "m.presence", R"({"push":[)" + kept + "]}");
}

edu_verdict judge_to_device(dom::element content, std::string_view origin, std::string_view server_name) {
  const auto sender = string_member(content, "sender"), type = string_member(content, "type"),
             id = string_member(content, "message_id");
  dom::object messages;
  // U7 says 32 code points; a longer id is no reason to lose somebody's keys.
  if (!sender || !type || !id || id->empty() || id->size() > 255 || content["messages"].get(messages))
    return drop("m.direct_to_device needs sender, type, message_id (at most 255 bytes) and messages");
  if (!is_user_of(*sender, origin)) return drop("m.direct_to_device from a user of another server"); // U9
  std::map<std::string, std::string> users;
  for (const auto user : messages) {
    dom::object devices;
    if (!is_user_of(user.key, server_name) || user.value.get(devices)) continue;
    std::map<std::string, std::string> kept;
    for (const auto device : devices)
      if (device.value.is_object()) kept[std::string(device.key)] = canonical_json(device.value);
    if (!kept.empty()) users[std::string(user.key)] = object_of(kept);
  }
  if (users.empty()) return drop("m.direct_to_device without a message for a user of ours");
  edu_verdict out;
  out.is = what::to_device;
  out.json = R"({"origin":)" + json_string(origin) + R"(,"sender":)" + json_string(*sender) + R"(,"type":)" +
             json_string(*type) + R"(,"message_id":)" + json_string(*id) + R"(,"messages":)" + object_of(users) + "}";
  out.message_key = std::string(*sender) + "|" + std::string(*id);
  out.devices = devices_named_by(*sender, *type, messages);
  return out;
}

edu_verdict judge_device_list(device_verdict read) {
  if (!read.change) return drop(std::move(read.problem));
  edu_verdict out;
  out.is = what::device_list;
  out.problem = std::move(read.problem);
  out.devices.push_back(std::move(*read.change));
  return out;
}

edu_verdict judge_by_type(std::string_view type, dom::element content, std::string_view origin,
                          std::string_view server_name, const room_book& rooms) {
  if (type == "m.typing") return judge_typing(content, origin, rooms);
  if (type == "m.receipt") return judge_receipts(content, origin, rooms);
  if (type == "m.presence") return judge_presence(content, origin);
  if (type == "m.direct_to_device") return judge_to_device(content, origin, server_name);
  if (type == "m.device_list_update") return judge_device_list(read_device_list_update(content, origin));
  // Synapse sends each twice, under the name that it had before the specification took it too.
  if (type == "m.signing_key_update" || type == "org.matrix.signing_key_update")
    return judge_device_list(read_signing_key_update(content, origin));
  return passed_on(origin, type, canonical_json(content));
}

} // namespace

void rooms_of_edu(dom::element edu, std::set<std::string>& rooms) {
  const auto type = string_member(edu, "edu_type");
  dom::element content;
  if (!type || edu["content"].get(content) || !content.is_object()) return;
  if (*type == "m.typing") {
    const auto room = string_member(content, "room_id");
    if (room && is_room_id(*room)) rooms.emplace(*room);
  } else if (*type == "m.receipt") {
    for (const auto room : dom::object(content)) {
      if (rooms.size() >= inbound_judge::max_rooms) return;
      if (is_room_id(room.key)) rooms.emplace(room.key);
    }
  }
}

edu_verdict judge_edu(dom::element edu, std::string_view origin, std::string_view server_name, const room_book& rooms) {
  const auto type = string_member(edu, "edu_type");
  dom::element content;
  if (!type || type->empty() || type->size() > 255 || edu["content"].get(content) || !content.is_object())
    return drop("an EDU needs edu_type (a string) and content (an object)");
  try {
    return judge_by_type(*type, content, origin, server_name, rooms);
  } catch (const json_problem& problem) {
    return drop(std::string(*type) + ": " + problem.what()); // numbers that may not be signed (C2)
  }
}

} // namespace ranvier
