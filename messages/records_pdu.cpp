#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "messages/record_fields.hpp"

namespace ranvier {

namespace {

namespace dom = simdjson::dom;

/// What is read of a fed event, whatever record it comes in.
struct fed_event {
  std::string json, type, sender, room_id, membership;
  std::optional<std::string> state_key;
  bool loose_numbers = false;
};

void check_references(const fields& event, std::string_view key, std::size_t most) {
  auto value = event.find(key);
  if (!value) return;
  dom::array list;
  if (value->get(list) != simdjson::SUCCESS) bad_shape('"' + event.name(key) + "\" must be a list");
  std::size_t count = 0;
  for ([[maybe_unused]] dom::element each : list)
    ++count;
  if (count > most)
    too_large('"' + event.name(key) + "\" holds " + std::to_string(count) + " events, at most " + std::to_string(most) +
              " are allowed");
}

/// The shape that every receiver demands (E9). The sender may be remote: events that came in by send_join are relayed
/// to the others (T12).
fed_event read_event(const fields& in, numbers rule) {
  fields event = in.child("event");
  fed_event out;
  out.type = event.text("type");
  out.sender = event.user("sender");
  if (event.find("room_id")) out.room_id = event.room("room_id");
  else if (out.type != "m.room.create") bad_shape("\"event.room_id\" is missing");
  if (auto key = event.find("state_key")) {
    auto text = string_of(*key, "event.state_key");
    if (text.size() > max_id_bytes) too_large("\"event.state_key\" has more than 255 bytes");
    out.state_key = std::string(text);
  }
  fields content = event.child("content");
  if (out.type == "m.room.member") {
    if (!out.state_key) bad_shape("\"event.state_key\" is missing in an m.room.member event");
    if (!is_user_id(*out.state_key))
      bad_value("\"event.state_key\" of an m.room.member event must be a user id, it is " + in_quotes(*out.state_key));
    out.membership =
        membership_of(string_of(content.need("membership"), "event.content.membership"), "event.content.membership");
  }
  if (dom::object(event.child("signatures").object()).size() == 0)
    bad_value("\"event.signatures\" is empty: an event must be signed before it is fed");
  event.child("hashes");
  event.need("origin_server_ts");
  check_references(event, "prev_events", 20);
  check_references(event, "auth_events", 10);
  if (rule == numbers::lenient) {
    try {
      out.json = canonical_json(in.need("event"), numbers::strict);
    } catch (const json_problem&) {
      out.loose_numbers = true; // whether it may is for the ledger to say, which knows the room's version
    }
  }
  if (out.json.empty()) out.json = canonical_member(in.need("event"), "event", rule);
  if (out.json.size() > max_item_bytes)
    too_large("\"event\" has " + std::to_string(out.json.size()) +
              " bytes as canonical JSON, at most 65536 are allowed");
  return out;
}

/// Integers beyond 2^53 are refused where room version 6 or later forbids them (C4); without a version, or with one
/// that we don't know, the host's judgement stands.
numbers rule_for(const std::optional<room_version_rules>& rules) {
  return rules ? rules->number_rule : numbers::lenient;
}

/// The id that the event must have, if the room's version tells how to compute it (E3).
void check_event_id(const fields& in, const std::optional<room_version_rules>& rules, const std::string& given) {
  if (!rules) return;
  auto computed = event_id_of(in.need("event"), *rules);
  if (!computed.empty() && computed != given)
    bad_shape("\"event_id\" is " + in_quotes(given) + ", but the event's id in room version " +
              std::to_string(rules->number) + " is " + in_quotes(computed));
}

} // namespace

record read_pdu(const fields& in, std::string_view server_name) {
  pdu_record out;
  out.event_id = in.event("event_id");
  out.room_version = room_version_of(in, false);
  auto rules = rules_of(out.room_version);
  auto event = read_event(in, rule_for(rules));
  check_event_id(in, rules, out.event_id);
  out.event = std::move(event.json);
  out.loose_numbers = event.loose_numbers;
  out.type = std::move(event.type);
  out.sender = std::move(event.sender);
  out.state_key = std::move(event.state_key);
  out.membership = std::move(event.membership);
  // A create event of room version 12 has no room id: the room is named by it (N7).
  out.room_id = event.room_id.empty() ? "!" + out.event_id.substr(1) : std::move(event.room_id);
  out.destinations = in.servers("destinations", server_name);
  if (auto exclude = in.servers("exclude", server_name)) out.exclude = std::move(*exclude);
  return out;
}

record read_partial_join(const fields& in, std::string_view server_name) {
  partial_join_record out;
  out.room_id = in.room("room_id");
  out.room_version = room_version_of(in, true);
  out.user_id = in.local_user("user_id", server_name);
  out.event_id = in.event("event_id");
  auto rules = rules_of(out.room_version);
  auto event = read_event(in, rule_for(rules));
  if (event.type != "m.room.member" || event.membership != "join" || event.state_key != out.user_id)
    bad_value("\"event\" must be the join of " + out.user_id + ": an m.room.member event with that state_key");
  if (event.room_id != out.room_id) bad_value("\"event.room_id\" is not \"room_id\"");
  check_event_id(in, rules, out.event_id);
  out.event = std::move(event.json);
  out.joined_via = in.server("joined_via");
  auto servers = in.servers("servers_in_room", server_name);
  if (!servers) bad_shape("\"servers_in_room\" is missing");
  out.servers_in_room = std::move(*servers);
  out.since = in.natural("since_position").value_or(0);
  return out;
}

} // namespace ranvier
