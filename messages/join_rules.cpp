#include "messages/join_rules.hpp"

#include "messages/ids.hpp"

namespace ranvier {

namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;

constexpr std::string_view authorised_member = "join_authorised_via_users_server";

/// Why the template can't be used (J2), or empty.
std::string problem_of(element event, const join_wish& wish) {
  auto differs = [&](std::string_view member, std::string_view wanted) {
    return string_member(event, member).value_or("") != wanted;
  };
  if (!event.is_object()) return "its template is no event";
  if (differs("type", "m.room.member")) return "its template is no m.room.member event";
  if (differs("room_id", wish.room_id)) return "its template is for another room";
  if (differs("sender", wish.user_id)) return "its template has another sender";
  if (differs("state_key", wish.user_id)) return "its template has another state_key";
  element content;
  if (event["content"].get(content) != SUCCESS || !content.is_object()) return "its template has no content";
  if (string_member(content, "membership").value_or("") != "join") return "its template is no join";
  simdjson::dom::array previous;
  if (event["prev_events"].get_array().get(previous) != SUCCESS || previous.size() == 0)
    return "its template names no prev_events";
  return {};
}

/// What the host adds, but neither the membership nor who authorises the join.
std::string content_of(const join_wish& wish, std::string_view authorised_user, numbers rule) {
  std::string out = R"({"membership":"join")";
  if (!authorised_user.empty()) out += "," + json_string(authorised_member) + ":" + json_string(authorised_user);
  if (wish.content.empty()) return out + "}";
  const json_document document(wish.content);
  simdjson::dom::object members;
  if (document.root().get(members) != SUCCESS) throw json_problem(true, "the join's content is no object");
  for (auto [key, value] : members) {
    if (key == "membership" || key == authorised_member) continue;
    out += "," + json_string(key) + ":" + canonical_json(value, rule);
  }
  return out + "}";
}

std::string member_or_list(element event, std::string_view name, numbers rule) {
  element value;
  return event[name].get(value) == SUCCESS ? canonical_json(value, rule) : std::string("[]");
}

/// Room versions 1 and 2: the event is named by its maker. The name follows from the rest of it, so it is no chance
/// that two differ.
std::string named(const std::string& event, const std::string& server_name) {
  const auto id = "$" + base64_url(sha256(event)).substr(0, 24) + ":" + server_name;
  return event.substr(0, event.size() - 1) + R"(,"event_id":)" + json_string(id) + "}";
}

join_offer made_of(element event, join_offer offer, const join_wish& wish, const signing_key& key,
                   std::int64_t now_ms) {
  const auto rule = offer.rules.number_rule;
  std::int64_t depth = 0;
  if (event["depth"].get_int64().get(depth) != SUCCESS || depth < 0) {
    offer.problem = "its template has no usable depth";
    return offer;
  }
  element content;
  if (event["content"].get(content) != SUCCESS) return offer;
  const auto authorised_user = string_member(content, authorised_member).value_or("");
  if (!authorised_user.empty()) {
    offer.authorised_by = std::string(server_of(authorised_user));
    if (!is_user_id(authorised_user) || !is_server_name(offer.authorised_by)) {
      offer.problem = "its template names " + std::string(authorised_user.substr(0, 255)) +
                      " as the one who authorises the join, which is no user";
      return offer;
    }
  }
  std::string text = R"({"type":"m.room.member","room_id":)" + json_string(wish.room_id) + R"(,"sender":)" +
                     json_string(wish.user_id) + R"(,"state_key":)" + json_string(wish.user_id) + R"(,"content":)" +
                     content_of(wish, authorised_user, rule) + R"(,"depth":)" + std::to_string(depth) +
                     R"(,"origin":)" + json_string(wish.server_name) + R"(,"origin_server_ts":)" +
                     std::to_string(now_ms) + R"(,"prev_events":)" + member_or_list(event, "prev_events", rule) +
                     R"(,"auth_events":)" + member_or_list(event, "auth_events", rule) + "}";
  if (offer.rules.event_id == room_version_rules::id_form::given) text = named(text, wish.server_name);
  auto made = sign_event(text, offer.rules, wish.server_name, key);
  const json_document document(made.event);
  if (const auto shape = look_at_pdu(document.root(), offer.rules); !shape.ok) {
    offer.problem = "no event can be made of its template: " + shape.problem;
    return offer;
  }
  offer.event_id = std::move(made.event_id);
  offer.event = std::move(made.event);
  return offer;
}

join_offer refused(std::string problem) {
  join_offer out;
  out.problem = std::move(problem);
  return out;
}

} // namespace

join_offer read_join_template(std::string_view answer, const join_wish& wish, const signing_key& key,
                              std::int64_t now_ms) {
  try {
    const json_document document(answer);
    join_offer offer;
    element event, version;
    if (document.root()["event"].get(event) != SUCCESS) return refused("it has no event template");
    if (document.root()["room_version"].get(version) != SUCCESS) offer.room_version = "1"; // J3
    else if (std::string_view text; version.get(text) == SUCCESS) offer.room_version = std::string(text.substr(0, 32));
    const auto rules = rules_of(offer.room_version);
    if (!rules) return refused("the room is of version '" + offer.room_version + "', which isn't known here");
    offer.rules = *rules;
    if (auto problem = problem_of(event, wish); !problem.empty()) return refused(std::move(problem));
    auto made = made_of(event, std::move(offer), wish, key, now_ms);
    return made.problem.empty() ? made : refused(std::move(made.problem));
  } catch (const json_problem& problem) {
    return refused(std::string("it can't be read: ") + problem.what());
  }
}

std::string make_join_uri(const join_wish& wish) {
  std::string uri =
      "/_matrix/federation/v1/make_join/" + percent_encode(wish.room_id) + "/" + percent_encode(wish.user_id);
  char before = '?';
  for (const auto& version : known_room_versions()) {
    uri += before + ("ver=" + version);
    before = '&';
  }
  return uri;
}

std::string send_join_uri(const join_wish& wish, const std::string& event_id, bool v2, bool omit_members) {
  std::string uri = std::string("/_matrix/federation/") + (v2 ? "v2" : "v1") + "/send_join/" +
                    percent_encode(wish.room_id) + "/" + percent_encode(event_id);
  if (v2) uri += omit_members ? "?omit_members=true" : "?omit_members=false";
  return uri;
}

std::vector<std::string> references_of(std::string_view event, std::string_view member) {
  std::vector<std::string> out;
  const json_document document(event);
  simdjson::dom::array list;
  if (document.root()[member].get_array().get(list) != SUCCESS) return out;
  for (auto item : list) {
    std::string_view id;
    simdjson::dom::array pair;
    if (item.get_string().get(id) == SUCCESS) out.emplace_back(id);
    else if (item.get_array().get(pair) == SUCCESS && pair.at(0).get_string().get(id) == SUCCESS) out.emplace_back(id);
  }
  return out;
}

} // namespace ranvier
