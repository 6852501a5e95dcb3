#include "bin/demo_room.hpp"

#include "bin/cli_verbs.hpp"
#include "messages/ids.hpp"

#include <algorithm>
#include <sstream>

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

std::size_t demo_room::members() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(state_.begin(), state_.end(), [](const auto& one) { return one.first.first == "m.room.member"; }));
}

std::optional<sink_reply> demo_room::answer(const sink_question& question, const std::vector<std::string>& servers) {
  // /_matrix/federation/v1/NAME/SUBJECT/DETAIL
  std::vector<std::string> parts;
  std::istringstream path(question.path);
  for (std::string part; std::getline(path, part, '/');)
    parts.push_back(percent_decode(part).value_or(part));
  if (parts.size() < 6) return {};
  const auto& name = parts[4];
  const auto& subject = parts[5];
  const auto detail = parts.size() > 6 ? parts[6] : std::string();
  const auto parameter = [&](const char* key) {
    const auto at = question.query.find(key);
    return at == question.query.end() ? std::string() : at->second;
  };
  std::lock_guard lock(mutex_);
  if (name == "event" && events_.contains(subject))
    return sink_reply{200, json{{"origin_server_ts", wall_now_ms()}, {"pdus", {events_.at(subject)}}}.dump()};
  if (subject != room_id_) return {};
  if (name == "make_join") return template_for(detail);
  if (name == "send_join") return take_join(detail, question.body, parameter("omit_members") == "true", servers);
  if (name == "state_ids" || name == "state") return state_at(parameter("event_id"), name == "state");
  return {};
}

sink_reply demo_room::template_for(const std::string& user) const {
  const json event{{"type", "m.room.member"},
                   {"room_id", room_id_},
                   {"sender", user},
                   {"state_key", user},
                   {"content", {{"membership", "join"}}},
                   {"depth", depth_ + 1},
                   {"origin_server_ts", wall_now_ms()},
                   {"prev_events", {head_}},
                   {"auth_events", auth_for("m.room.member", user, user)}};
  return {200, json{{"room_version", "10"}, {"event", event}}.dump()};
}

sink_reply demo_room::take_join(const std::string& event_id, const std::string& body, bool omit,
                                const std::vector<std::string>& servers) {
  const auto event = json::parse(body, nullptr, false);
  if (!event.is_object() || !event.contains("type") || !event.contains("state_key") || !event.contains("depth"))
    return {400, R"({"errcode":"M_BAD_JSON","error":"this is no join"})"};
  std::vector<std::string> shown;
  for (const auto& [where, id] : state_)
    if (!omit || where.first != "m.room.member") shown.push_back(id);
  auto chain = chain_of(shown);
  std::erase_if(chain, [&](const auto& id) { return std::find(shown.begin(), shown.end(), id) != shown.end(); });
  json answer{{"state", bodies_of(shown)}, {"auth_chain", bodies_of(chain)}, {"event", event}};
  if (omit) {
    answer["members_omitted"] = true;
    answer["servers_in_room"] = servers;
  }
  accept({event_id, event});
  return {200, answer.dump()};
}

sink_reply demo_room::state_at(const std::string& event_id, bool bodies) const {
  const auto at = after_.find(event_id);
  if (at == after_.end()) return {404, R"({"errcode":"M_NOT_FOUND","error":"no such event"})"};
  std::vector<std::string> ids;
  for (const auto& [where, id] : at->second)
    ids.push_back(id);
  const auto chain = chain_of(ids);
  if (bodies) return {200, json{{"pdus", bodies_of(ids)}, {"auth_chain", bodies_of(chain)}}.dump()};
  return {200, json{{"pdu_ids", ids}, {"auth_chain_ids", chain}}.dump()};
}

std::vector<std::string> demo_room::chain_of(const std::vector<std::string>& ids) const {
  std::vector<std::string> out, todo;
  const auto look = [&](const std::string& id) {
    for (const auto& one : events_.at(id)["auth_events"])
      todo.push_back(one.get<std::string>());
  };
  for (const auto& id : ids)
    look(id);
  while (!todo.empty()) {
    const auto one = todo.back();
    todo.pop_back();
    if (std::find(out.begin(), out.end(), one) != out.end()) continue;
    out.push_back(one);
    look(one);
  }
  return out;
}

json demo_room::bodies_of(const std::vector<std::string>& ids) const {
  auto out = json::array();
  for (const auto& id : ids)
    out.push_back(events_.at(id));
  return out;
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
  std::lock_guard lock(mutex_);
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
