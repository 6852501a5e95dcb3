#include "messages/event.hpp"
#include "messages/ids.hpp"
#include "messages/redaction.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;
using id_form = room_version_rules::id_form;

// E9
constexpr std::size_t max_event_bytes = 65'536;
constexpr std::size_t max_prev_events = 20;
constexpr std::size_t max_auth_events = 10;
constexpr std::size_t max_name_bytes = 255; // type and state_key (N8)

bool is_create(const pdu_shape& shape) { return shape.type == "m.room.create"; }

/// v12: the room is named after this event, which so can't name it itself (N7).
bool names_the_room(const pdu_shape& shape, const room_version_rules& rules) {
  return is_create(shape) && !rules.create_has_room_id;
}

void read_members(element pdu, pdu_shape& shape) {
  shape.room_id = string_member(pdu, "room_id").value_or("");
  shape.type = string_member(pdu, "type").value_or("");
  shape.sender = string_member(pdu, "sender").value_or("");
  if (const auto key = string_member(pdu, "state_key")) shape.state_key = std::string(*key);
  element content;
  if (shape.type == "m.room.member" && pdu["content"].get(content) == SUCCESS && content.is_object())
    shape.membership = string_member(content, "membership").value_or("");
  std::int64_t at = 0;
  if (pdu["origin_server_ts"].get_int64().get(at) == SUCCESS) shape.origin_server_ts = at;
}

/// Signatures of other algorithms than Ed25519 are left out (C6), as is what isn't of the form.
void read_signatures(element pdu, pdu_shape& shape) {
  simdjson::dom::object servers;
  if (pdu["signatures"].get_object().get(servers) != SUCCESS) return;
  for (auto server : servers) {
    simdjson::dom::object keys;
    if (server.value.get_object().get(keys) != SUCCESS) continue;
    for (auto key : keys) {
      std::string_view signature;
      if (!key.key.starts_with("ed25519:") || key.value.get_string().get(signature) != SUCCESS) continue;
      shape.signatures[std::string(server.key)][std::string(key.key)] = std::string(signature);
    }
  }
}

/// E4. The sender of a third-party invite is whoever invited an address; the server that knows the address's user made
/// the event, so the sender's server hasn't signed it.
void name_signers(element pdu, const std::optional<room_version_rules>& rules, pdu_shape& shape) {
  const bool third_party_invite = shape.type == "m.room.member" && shape.membership == "invite" &&
                                  pdu["content"]["third_party_invite"].error() == SUCCESS;
  if (!third_party_invite) shape.signers.emplace_back(server_of(shape.sender));
  if (!rules || rules->event_id != id_form::given) return;
  std::string of_event_id(server_of(shape.event_id));
  if (std::find(shape.signers.begin(), shape.signers.end(), of_event_id) == shape.signers.end())
    shape.signers.push_back(std::move(of_event_id));
}

/// An event id, or in v1-2 a pair of it and its hashes. `rules` nothing: either.
bool is_event_reference(element item, const std::optional<room_version_rules>& rules) {
  const bool pair_wanted = rules && rules->event_id == id_form::given;
  std::string_view id;
  if (item.get_string().get(id) == SUCCESS) return !pair_wanted && is_event_id(id);
  if (rules && !pair_wanted) return false;
  simdjson::dom::array pair;
  return item.get_array().get(pair) == SUCCESS && pair.size() == 2 && pair.at(0).get_string().get(id) == SUCCESS &&
         is_event_id(id) && pair.at(1).is_object();
}

std::string problem_of_references(element pdu, const std::string& name, std::size_t most,
                                  const std::optional<room_version_rules>& rules) {
  simdjson::dom::array ids;
  if (pdu[name].get_array().get(ids) != SUCCESS) return "The event's " + name + " must be a list.";
  std::size_t count = 0;
  for (auto item : ids) {
    if (!is_event_reference(item, rules)) return "The event's " + name + " must hold event ids.";
    ++count;
  }
  if (count > most)
    return "The event has " + std::to_string(count) + " " + name + "; at most " + std::to_string(most) +
           " are allowed.";
  return {};
}

std::string problem_of_room(element pdu, const std::optional<room_version_rules>& rules, const pdu_shape& shape) {
  const bool absent = pdu["room_id"].error() != SUCCESS;
  if (rules && names_the_room(shape, *rules))
    return absent ? "" : "The m.room.create event of a room of version 12 or later may not have a room_id.";
  if (!rules && is_create(shape) && absent) return {}; // perhaps of version 12
  return is_room_id(shape.room_id) ? "" : "The event's room_id must be a room id: '!' and up to 254 bytes.";
}

std::string problem_of_numbers(element pdu) {
  std::int64_t depth = 0, at = 0;
  if (pdu["depth"].get_int64().get(depth) != SUCCESS || depth < 0)
    return "The event's depth must be an integer that isn't negative and fits 64 bits.";
  if (pdu["origin_server_ts"].get_int64().get(at) != SUCCESS)
    return "The event's origin_server_ts must be an integer, in milliseconds.";
  return {};
}

/// What is wrong with the form, empty if nothing is (E6 first check, E9).
std::string problem_of_form(element pdu, const std::optional<room_version_rules>& rules, const pdu_shape& shape) {
  if (!string_member(pdu, "type")) return "The event's type must be a string.";
  if (shape.type.size() > max_name_bytes) return "The event's type is longer than 255 bytes.";
  if (!is_user_id(shape.sender)) return "The event's sender must be a user id of up to 255 bytes.";
  if (auto problem = problem_of_room(pdu, rules, shape); !problem.empty()) return problem;
  if (!shape.state_key && pdu["state_key"].error() == SUCCESS) return "The event's state_key must be a string.";
  if (shape.state_key && shape.state_key->size() > max_name_bytes)
    return "The event's state_key is longer than 255 bytes.";
  if (!pdu["content"].is_object()) return "The event's content must be an object.";
  if (auto problem = problem_of_numbers(pdu); !problem.empty()) return problem;
  if (!pdu["signatures"].is_object()) return "The event's signatures must be an object.";
  if (!pdu["hashes"].is_object()) return "The event's hashes must be an object.";
  if (auto problem = problem_of_references(pdu, "prev_events", max_prev_events, rules); !problem.empty())
    return problem;
  if (auto problem = problem_of_references(pdu, "auth_events", max_auth_events, rules); !problem.empty())
    return problem;
  if (rules && rules->event_id == id_form::given && (!is_event_id(shape.event_id) || server_of(shape.event_id).empty()))
    return "The event's event_id must be '$', a name, ':' and a server name, of up to 255 bytes.";
  return {};
}

bool has_right_hash(element pdu, const event_form& form) {
  std::string_view given;
  if (pdu["hashes"]["sha256"].get_string().get(given) != SUCCESS) return false;
  return unbase64(given) == sha256(form.hashed_bytes());
}

void look(element pdu, const std::optional<room_version_rules>& rules, pdu_shape& shape) {
  if (!pdu.is_object()) {
    shape.problem = "An event must be a JSON object.";
    return;
  }
  read_members(pdu, shape);
  if (!rules) {
    shape.event = canonical_json(pdu, numbers::lenient);
    shape.problem = problem_of_form(pdu, rules, shape);
  } else {
    event_form form(pdu, *rules);
    shape.event = form.members().whole();
    shape.signed_bytes = form.signed_bytes();
    shape.event_id = form.event_id(shape.signed_bytes);
    if (names_the_room(shape, *rules)) shape.room_id = "!" + shape.event_id.substr(1);
    shape.problem = problem_of_form(pdu, rules, shape);
    shape.hash_ok = has_right_hash(pdu, form);
  }
  if (shape.problem.empty() && shape.event.size() > max_event_bytes)
    shape.problem = "The event is " + std::to_string(shape.event.size()) + " bytes; at most 65536 are allowed.";
  if (!shape.problem.empty()) return;
  if (rules && !shape.hash_ok) shape.event = redacted(pdu, *rules);
  read_signatures(pdu, shape);
  name_signers(pdu, rules, shape);
  shape.ok = true;
}

} // namespace

pdu_shape look_at_pdu(element pdu, const std::optional<room_version_rules>& rules) {
  pdu_shape shape;
  try {
    look(pdu, rules, shape);
  } catch (const std::exception& problem) {
    shape.ok = false;
    shape.problem = problem.what();
  }
  return shape;
}

} // namespace ranvier
