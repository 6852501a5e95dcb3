#include "storage/roster_store.hpp"

#include "messages/ids.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {

/// Rooms whose servers are kept in memory.
constexpr std::size_t max_cached_rooms = 20'000;

std::vector<row_id> row_ids(query rows) {
  std::vector<row_id> out;
  while (rows.step())
    out.push_back(rows.integer(0));
  return out;
}

} // namespace

row_id roster_store::row_of_server(std::string_view user) { return names_.server(server_of(user)); }

std::optional<row_id> roster_store::known(std::string_view room_id) {
  auto room = names_.known_room(room_id);
  if (!room || !db_.integer("SELECT 1 FROM room WHERE id = ? AND has_roster = 1", *room)) return {};
  return room;
}

void roster_store::begin_roster(row_id room) {
  db_.run("UPDATE room SET has_roster = 1, forgotten_ms = 0 WHERE id = ? AND has_roster = 0", room);
}

void roster_store::set_version(row_id room, std::string_view version) {
  if (!version.empty()) db_.run("UPDATE room SET version = ?2 WHERE id = ?1 AND version <> ?2", room, version);
}

void roster_store::learn_version(row_id room, std::string_view version) {
  if (!version.empty()) db_.run("UPDATE room SET version = ?2 WHERE id = ?1 AND version = ''", room, version);
}

std::optional<member_row> roster_store::find_member(row_id room, std::string_view user) {
  auto server = names_.known_server(server_of(user));
  if (!server) return {};
  auto row = db_.ask("SELECT membership, previous, changed_at, has_event_id, matched FROM member "
                     "WHERE room = ? AND server = ? AND user = ?",
                     room, *server, user);
  if (!row.step()) return {};
  return member_row{row.text(0), row.text(1), row.integer(2), row.integer(3) != 0, row.integer(4) != 0};
}

void roster_store::mark_matched(row_id room, std::string_view user) {
  db_.run("UPDATE member SET matched = 1 WHERE room = ? AND server = ? AND user = ?", room, row_of_server(user), user);
}

void roster_store::write_member(row_id room, row_id server, std::string_view user, std::string_view membership,
                                position at, const std::optional<member_row>& was, bool has_event_id) {
  db_.run("INSERT OR REPLACE INTO member(room, server, user, membership, changed_at, previous, has_event_id, matched) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, 0)",
          room, server, user, membership, at, was ? was->membership : std::string(), has_event_id);
}

bool roster_store::has_joined(row_id room, row_id server) {
  return db_.integer("SELECT 1 FROM member WHERE room = ? AND server = ? AND membership = 'join' LIMIT 1", room, server)
      .has_value();
}

bool roster_store::has_open_span(row_id room, row_id server) {
  return db_.integer("SELECT 1 FROM span WHERE room = ? AND server = ? AND until = 9223372036854775807", room, server)
      .has_value();
}

void roster_store::open_span(row_id room, row_id server, position at, std::int64_t now_ms) {
  if (has_open_span(room, server)) return;
  destinations_.ensure(server, at - 1, now_ms);
  db_.run("INSERT INTO span(room, server, since, until) VALUES(?, ?, ?, 9223372036854775807)", room, server, at);
  servers_.erase(room);
}

void roster_store::let_go_if_denied(row_id server) {
  if (destinations_.is_denied(server)) destinations_.let_go_extras(server);
}

void roster_store::close_span(row_id room, row_id server, position at) {
  db_.run("UPDATE span SET until = ? WHERE room = ? AND server = ? AND until = 9223372036854775807", at, room, server);
  if (db_.changes() > 0) servers_.erase(room);
}

void roster_store::close_all(row_id room, position at) {
  db_.run("UPDATE span SET until = ? WHERE room = ? AND until = 9223372036854775807", at, room);
  servers_.erase(room);
}

void roster_store::change(std::string_view room_id, std::string_view user, std::string_view membership,
                          std::string_view event_id, std::int64_t now_ms) {
  std::string key = event_id.empty() ? std::string() : "m|" + std::string(event_id);
  if (!key.empty() && log_.seen(key)) return; // before all else: an old line doesn't bring a forgotten room back
  auto room = names_.room(room_id);
  begin_roster(room);
  auto was = find_member(room, user);
  // Whoever isn't known in a partial room may be in it: that they left must stand over the state that comes.
  bool same = was ? was->membership == membership : membership == "leave" && !is_partial(room);
  if (same) {
    if (membership == "join" && told_ && is_partial(room) && row_of_server(user) != our_server)
      told_({room, {}, {}, now_ms, {std::string(user)}});
    // Negative: nothing changed there.
    if (!key.empty()) log_.see(key, now_ms, -log_.head() - 1, was ? was->membership : std::string());
    return;
  }
  auto at = log_.next();
  if (!key.empty()) log_.see(key, now_ms, at, was ? was->membership : std::string());
  auto server = row_of_server(user);
  write_member(room, server, user, membership, at, was, !key.empty());
  bool joins = membership == "join", parts = was && was->membership == "join";
  if (!joins && !parts) return;
  change_spans(room, server, joins, at, now_ms);
  std::vector<std::string> one{std::string(user)};
  if (joins) tell(room, std::move(one), {}, now_ms);
  else tell(room, {}, std::move(one), now_ms);
}

void roster_store::tell(row_id room, std::vector<std::string> joined, std::vector<std::string> parted,
                        std::int64_t now_ms) {
  if (told_ && (!joined.empty() || !parted.empty())) told_({room, std::move(joined), std::move(parted), now_ms});
}

std::vector<std::string> roster_store::joined_users(row_id room) {
  std::vector<std::string> users;
  auto rows = db_.ask("SELECT user FROM member INDEXED BY member_joined WHERE room = ? AND membership = 'join'", room);
  while (rows.step())
    users.push_back(rows.text(0));
  return users;
}

void roster_store::change_spans(row_id room, row_id server, bool joins, position at, std::int64_t now_ms) {
  if (server == our_server) {
    // Only the first of ours to come and the last to go change anything for the others.
    if (joins) settle(room, at, now_ms);
    else if (!has_joined(room, our_server)) close_all(room, at);
  } else if (joins) {
    if (has_joined(room, our_server)) open_span(room, server, at, now_ms);
  } else if (!has_joined(room, server) && !is_partial(room)) {
    close_span(room, server, at);
  }
}

/// Opens and closes spans at `at` so that the open ones are what the roster says.
void roster_store::settle(row_id room, position at, std::int64_t now_ms) {
  if (!has_joined(room, our_server)) {
    close_all(room, at);
    return;
  }
  auto joined = joined_servers(room);
  std::set<row_id> wanted(joined.begin(), joined.end());
  for (auto server : row_ids(db_.ask("SELECT server FROM span WHERE room = ? AND until = 9223372036854775807", room)))
    if (wanted.erase(server) == 0 && !is_partial(room)) close_span(room, server, at);
  for (auto server : wanted)
    open_span(room, server, at, now_ms);
}

void roster_store::replace(std::string_view room_id, const std::map<std::string, std::string>& members,
                           std::int64_t now_ms) {
  auto room = names_.room(room_id);
  begin_roster(room);
  std::map<std::string, std::string> had;
  {
    auto rows = db_.ask("SELECT user, membership FROM member WHERE room = ?", room);
    while (rows.step())
      had.emplace(rows.text(0), rows.text(1));
  }
  std::map<std::string, std::string> differences;
  for (const auto& [user, membership] : members) {
    auto was = had.find(user);
    if (was == had.end() ? membership != "leave" : was->second != membership) differences.emplace(user, membership);
  }
  for (const auto& [user, membership] : had)
    if (membership != "leave" && !members.contains(user)) differences.emplace(user, "leave");
  if (differences.empty()) return;
  auto at = log_.next();
  for (const auto& [user, membership] : differences)
    write_member(room, row_of_server(user), user, membership, at, find_member(room, user), false);
  settle(room, at, now_ms);
  std::vector<std::string> joined, parted;
  for (const auto& [user, membership] : differences) {
    auto was = had.find(user);
    if (membership == "join") joined.push_back(user);
    else if (was != had.end() && was->second == "join") parted.push_back(user);
  }
  tell(room, std::move(joined), std::move(parted), now_ms);
}

server_list roster_store::servers_of(row_id room) {
  if (auto found = servers_.find(room); found != servers_.end()) return found->second;
  std::vector<std::string> names;
  {
    auto rows = db_.ask("SELECT name FROM span JOIN server ON id = server "
                        "WHERE room = ? AND until = 9223372036854775807 ORDER BY name",
                        room);
    while (rows.step())
      names.push_back(rows.text(0));
  }
  if (servers_.size() >= max_cached_rooms) servers_.clear();
  return servers_[room] = std::make_shared<const std::vector<std::string>>(std::move(names));
}

server_list roster_store::servers_of_user(std::string_view user) {
  std::set<std::string> all;
  for (auto room :
       row_ids(db_.ask("SELECT room FROM member WHERE user = ? AND server = 1 AND membership = 'join'", user)))
    for (const auto& name : *servers_of(room))
      all.insert(name);
  return std::make_shared<const std::vector<std::string>>(all.begin(), all.end());
}

std::vector<row_id> roster_store::joined_servers(row_id room) {
  return row_ids(db_.ask("SELECT DISTINCT server FROM member INDEXED BY member_joined "
                         "WHERE room = ? AND membership = 'join' AND server > 1",
                         room));
}

std::vector<row_id> roster_store::ended_since(row_id room, position pos, bool opened_there) {
  return row_ids(db_.ask("SELECT DISTINCT server FROM span INDEXED BY span_ended "
                         "WHERE room = ?1 AND until >= ?2 AND until < 9223372036854775807 AND since <= ?3",
                         room, pos, opened_there ? pos : pos - 1));
}

void roster_store::forget() { servers_.clear(); }

} // namespace ranvier::storage
