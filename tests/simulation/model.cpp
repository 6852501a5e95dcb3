#include "tests/simulation/model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ranvier::sim {

namespace {

bool concerned(const std::string& membership) {
  return membership == "join" || membership == "invite" || membership == "knock";
}

nlohmann::json event_of(const feed_item& item) {
  nlohmann::json content{{"sim", item.id}};
  nlohmann::json event{{"type", "m.room.message"},
                       {"room_id", item.room},
                       {"sender", item.sender},
                       {"origin_server_ts", item.at_ms},
                       {"depth", 1},
                       {"prev_events", nlohmann::json::array()},
                       {"auth_events", nlohmann::json::array()},
                       {"hashes", {{"sha256", "AAAA"}}},
                       {"signatures", {{our_name, {{"ed25519:1", "AAAA"}}}}}};
  if (item.is == feed_item::what::member_event) {
    event["type"] = "m.room.member";
    event["state_key"] = item.user;
    content["membership"] = item.membership;
  } else {
    content["body"] = "words";
  }
  event["content"] = content;
  return event;
}

} // namespace

std::string server_of_user(const std::string& user) { return user.substr(user.find(':') + 1); }

std::string feed_item::to_json() const {
  if (is == what::rejected) return raw;
  nlohmann::json out;
  switch (is) {
  case what::message:
  case what::member_event:
    out = {{"kind", "pdu"}, {"event_id", id}, {"event", event_of(*this)}};
    if (destinations) out["destinations"] = *destinations;
    if (!exclude.empty()) out["exclude"] = exclude;
    break;
  case what::to_device: {
    out = {{"kind", "to_device"}, {"sender", sender}, {"type", "m.room.encrypted"}, {"message_id", id}};
    for (const auto& to : recipients)
      out["messages"][to]["*"] = {{"ciphertext", "x"}};
    break;
  }
  case what::roster:
    out = {{"kind", "roster"}, {"room_id", room}, {"room_version", "10"}, {"members", members}};
    break;
  case what::membership:
    out = {{"kind", "membership"}, {"room_id", room}, {"user_id", user}, {"membership", membership}};
    if (!line_event_id.empty()) out["event_id"] = line_event_id;
    break;
  case what::typing:
    out = {{"kind", "edu"}, {"edu_type", "m.typing"}, {"room_id", room}};
    out["content"] = {{"room_id", room}, {"user_id", sender}, {"typing", true}};
    break;
  case what::device:
    out = {{"kind", "device"}, {"user_id", sender}, {"device_id", id}};
    if (key.empty()) out["deleted"] = true;
    else out.update({{"keys", device_keys(sender, id, key)}, {"display_name", name}});
    break;
  case what::rejected:
    break;
  }
  if (seq > 0) out.update({{"source", "host"}, {"seq", seq}});
  return out.dump();
}

std::set<std::string> model::room::joined(bool local) const {
  std::set<std::string> out;
  for (const auto& [user, membership] : members)
    if (membership == "join" && (server_of_user(user) == our_name) == local) out.insert(user);
  return out;
}

std::string model::room::membership(const std::string& user) const {
  const auto found = members.find(user);
  return found == members.end() ? "leave" : found->second;
}

std::set<std::string> model::servers(const std::string& room_id) const {
  std::set<std::string> out;
  const auto found = rooms_.find(room_id);
  if (found == rooms_.end() || found->second.joined(true).empty()) return out;
  for (const auto& user : found->second.joined(false))
    out.insert(server_of_user(user));
  return out;
}

bool model::may(const std::string& server, const std::string& event) const {
  const auto found = may_.find(server);
  return found != may_.end() && found->second.count(event) > 0;
}

void model::change_member(const std::string& room_id, const std::string& user, const std::string& membership,
                          const std::string& event_id, bool by_line) {
  room& r = rooms_[room_id];
  change c{servers(room_id), r.membership(user), membership, event_id, false};
  if (c.before == membership) return;
  r.members[user] = membership;
  if ((c.before == "join") != (membership == "join")) count_sharing(room_id, user, by_line);
  latest_[{room_id, user}] = c;
  if (!event_id.empty()) by_event_[event_id] = c;
}

/// A member has joined the room, or has left it: who shares a room with whom now?
void model::count_sharing(const std::string& room_id, const std::string& user, bool by_line) {
  const auto& r = rooms_[room_id];
  const bool in = r.membership(user) == "join";
  const auto server = server_of_user(user);
  std::set<std::pair<std::string, std::string>> pairs;
  if (server == our_name) {
    if (in) rooms_of_user_[user].insert(room_id);
    else rooms_of_user_[user].erase(room_id);
    for (const auto& other : r.joined(false))
      pairs.emplace(server_of_user(other), user);
  } else {
    joined_of_server_[{room_id, server}] += in ? 1 : -1;
    for (const auto& other : r.joined(true))
      pairs.emplace(server, other);
  }
  for (const auto& pair : pairs) {
    const auto& rooms = rooms_of_user_[pair.second];
    const bool shares = std::any_of(rooms.begin(), rooms.end(), [&](const std::string& one) {
      const auto found = joined_of_server_.find({one, pair.first});
      return found != joined_of_server_.end() && found->second > 0;
    });
    if (!shares) {
      sharing_.erase(pair);
      told_.erase(pair);
    } else if (sharing_.insert(pair).second) {
      ++sharings_begun_;
      if (by_line && server == our_name && !devices_[user].empty()) told_.insert(pair);
    }
  }
}

void model::change_device(const feed_item& item) {
  auto& devices = devices_[item.sender];
  const auto before = devices;
  if (item.key.empty()) devices.erase(item.id);
  else devices[item.id] = item.key + "/" + item.name;
  if (devices == before) return;
  for (const auto& pair : sharing_)
    if (pair.second == item.sender) told_.insert(pair);
}

void model::apply(const feed_item& item, std::int64_t fed_ms) {
  if (item.seq > 0 && item.seq <= last_seq_) return;
  last_seq_ = std::max(last_seq_, item.seq);
  ++items_;
  switch (item.is) {
  case feed_item::what::message:
  case feed_item::what::member_event:
    add_event(item, fed_ms);
    break;
  case feed_item::what::to_device:
    for (const auto& user : item.recipients)
      messages_[server_of_user(user)].insert(item.id);
    break;
  case feed_item::what::roster: {
    rooms_[item.room];
    const auto had = rooms_[item.room].members;
    for (const auto& [user, membership] : item.members)
      change_member(item.room, user, membership, "");
    for (const auto& [user, membership] : had)
      if (item.members.count(user) == 0) change_member(item.room, user, "leave", "");
    break;
  }
  case feed_item::what::membership:
    if (!item.line_event_id.empty() && !seen_memberships_.insert(item.line_event_id).second) break;
    change_member(item.room, item.user, item.membership, item.line_event_id, true);
    break;
  case feed_item::what::device:
    change_device(item);
    break;
  case feed_item::what::typing:
  case feed_item::what::rejected:
    break;
  }
}

/// DESIGN section 4: a member event of ours goes to all servers that the room had just before that user's latest
/// change, whichever line comes first, and to the user's own if it was joined, invited or knocking before.
std::set<std::string> model::reached_by_member_event(const feed_item& item, std::set<std::string>& perhaps) {
  std::set<std::string> out;
  std::string before = rooms_[item.room].membership(item.user);
  const auto latest = latest_.find({item.room, item.user});
  if (const auto matched = by_event_.find(item.id); matched != by_event_.end()) {
    out = matched->second.servers_before;
    before = matched->second.before;
  } else if (latest != latest_.end() && latest->second.event_id.empty() && !latest->second.claimed &&
             latest->second.after == item.membership && item.membership != "join") {
    out = latest->second.servers_before;
    before = latest->second.before;
    latest->second.claimed = true;
  }
  if (concerned(before)) out.insert(server_of_user(item.user));
  // The words leave it open: those of a room that we are only about to enter, and the one who is invited by this event.
  if (item.membership == "join")
    for (const auto& user : rooms_[item.room].joined(false))
      perhaps.insert(server_of_user(user));
  perhaps.insert(server_of_user(item.user));
  return out;
}

void model::add_event(const feed_item& item, std::int64_t fed_ms) {
  if (!seen_.insert(item.id).second) return;
  places_[item.id] = places_.size();
  rooms_of_events_[item.id] = item.room;
  fed_[item.id] = fed_ms;
  std::set<std::string> to, perhaps;
  if (item.destinations) {
    to = *item.destinations;
  } else {
    to = servers(item.room);
    if (item.is == feed_item::what::member_event) to.merge(reached_by_member_event(item, perhaps));
  }
  to.erase(our_name);
  for (const auto& name : item.exclude) {
    to.erase(name);
    perhaps.erase(name);
  }
  for (const auto& name : to)
    must_[name].push_back({items_ - 1, item.room, item.id, fed_ms});
  to.merge(perhaps);
  for (const auto& name : to)
    may_[name].insert(item.id);
}

} // namespace ranvier::sim
