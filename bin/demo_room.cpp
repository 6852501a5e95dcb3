#include "bin/demo_room.hpp"

#include "bin/cli_verbs.hpp"
#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier {

namespace {

using nlohmann::json;
const room_version_rules& rules() {
  static const auto known = rules_of("10").value();
  return known;
}

} // namespace

demo_room::demo_room(std::string room_id, std::string creator, const signing_key& key)
    : room_id_(std::move(room_id))
    , creator_(std::move(creator)) {
  const std::string none;
  add(creator_, "m.room.create", {{"creator", creator_}, {"room_version", "10"}}, &none, key);
  join(creator_, key);
  add(creator_, "m.room.power_levels", {{"users", {{creator_, 100}}}}, &none, key);
  add(creator_, "m.room.join_rules", {{"join_rule", "public"}}, &none, key);
}

demo_room::made demo_room::message(const std::string& sender, const std::string& body, const signing_key& key) {
  return add(sender, "m.room.message", {{"msgtype", "m.text"}, {"body", body}}, nullptr, key);
}

demo_room::made demo_room::join(const std::string& user, const signing_key& key) {
  return add(user, "m.room.member", {{"membership", "join"}}, &user, key);
}

json demo_room::line(const made& event) {
  return {{"kind", "pdu"}, {"event_id", event.event_id}, {"event", event.event}};
}

std::vector<std::string> demo_room::auth_for(const std::string& type, const std::string& sender,
                                             const std::string& target) const {
  std::vector<place> wanted;
  if (type != "m.room.create") wanted = {{"m.room.create", ""}, {"m.room.power_levels", ""}, {"m.room.member", sender}};
  if (type == "m.room.member") {
    wanted.emplace_back("m.room.join_rules", "");
    if (target != sender) wanted.emplace_back("m.room.member", target);
  }
  std::vector<std::string> out;
  for (const auto& one : wanted)
    if (const auto at = state_.find(one); at != state_.end()) out.push_back(at->second);
  return out;
}

demo_room::made demo_room::add(const std::string& sender, const std::string& type, const json& content,
                               const std::string* state_key, const signing_key& key) {
  json event{{"type", type},
             {"room_id", room_id_},
             {"sender", sender},
             {"content", content},
             {"depth", depth_ + 1},
             {"origin_server_ts", wall_now_ms()},
             {"prev_events", head_.empty() ? json::array() : json::array({head_})},
             {"auth_events", auth_for(type, sender, state_key ? *state_key : std::string())}};
  if (state_key) event["state_key"] = *state_key;
  const auto with = sign_event(event.dump(), rules(), server_of(sender), key);
  made out{with.event_id, json::parse(with.event)};
  accept(out);
  return out;
}

void demo_room::accept(const made& one) {
  events_[one.event_id] = one.event;
  if (one.event.contains("state_key"))
    state_[{one.event["type"].get<std::string>(), one.event["state_key"].get<std::string>()}] = one.event_id;
  after_[one.event_id] = state_;
  head_ = one.event_id;
  depth_ = one.event["depth"].get<std::int64_t>();
}

} // namespace ranvier
