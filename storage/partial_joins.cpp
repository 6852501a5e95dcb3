#include "storage/partial_joins.hpp"

#include "messages/canonical_json.hpp"

#include <algorithm>
#include <set>

namespace ranvier::storage {

namespace {

/// Bits of join_event.part.
constexpr std::int64_t in_state = 1, in_auth_chain = 2;

std::string json_list(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const auto& name : names) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
  }
  return out + "]";
}

std::vector<std::string> list_of(const std::string& json) {
  std::vector<std::string> out;
  const json_document document(json);
  simdjson::dom::array names;
  if (document.root().get(names)) return out;
  for (auto name : names)
    if (std::string_view text; !name.get(text)) out.emplace_back(text);
  return out;
}

/// Adds those that aren't there yet.
void add_new(std::vector<std::string>& to, const std::vector<std::string>& more) {
  std::set<std::string> there(to.begin(), to.end());
  for (const auto& name : more)
    if (there.insert(name).second) to.push_back(name);
}

std::string settled_item(const begin_join& intent) {
  const std::string reason = "the engine ended while " + intent.server + " was asked to accept " + intent.event_id +
                             "; whether it did isn't known here: join again, or leave";
  return R"({"room_id":)" + json_string(intent.room_id) + R"(,"state":"settled","reason":)" + json_string(reason) +
         R"(,"users":[)" + json_string(intent.user_id) + R"(],"event_id":)" + json_string(intent.event_id) +
         R"(,"servers":{)" + json_string(intent.server) +
         R"(:{"verdict":"unreachable","reason":"no answer was read before the engine ended"}}})";
}

log_entry news(entry_kind kind, position pos, const std::string& room_id, const std::string& user, std::int64_t now_ms,
               server_list servers) {
  return {kind, pos, room_id, user, "", {}, now_ms, std::move(servers)};
}

server_list nobody() {
  static const auto none = std::make_shared<const std::vector<std::string>>();
  return none;
}

} // namespace

void partial_join_store::begin(const begin_join& what) {
  db_.run("INSERT OR REPLACE INTO join_intent(room, user, event_id, server, at_ms) VALUES(?, ?, ?, ?, ?)", what.room_id,
          what.user_id, what.event_id, what.server, what.at_ms);
}

void partial_join_store::drop(std::string_view room_id, std::string_view user) {
  db_.run("DELETE FROM join_intent WHERE room = ? AND user = ?", room_id, user);
}

std::size_t partial_join_store::settle_intents(inbox_store& inbox, std::int64_t now_ms) {
  std::vector<begin_join> found;
  {
    auto rows = db_.ask("SELECT room, user, event_id, server, at_ms FROM join_intent ORDER BY at_ms, room, user");
    while (rows.step())
      found.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.integer(4)});
  }
  for (const auto& one : found) {
    inbox.append("partial_join", settled_item(one), now_ms);
    drop(one.room_id, one.user_id);
  }
  return found.size();
}

std::int64_t partial_join_store::next_generation() {
  db_.run("INSERT INTO meta(key, value) VALUES('join_generation', 1) "
          "ON CONFLICT(key) DO UPDATE SET value = value + 1");
  return db_.integer("SELECT value FROM meta WHERE key = 'join_generation'").value_or(1);
}

std::optional<std::int64_t> partial_join_store::generation_of(row_id room) {
  return db_.integer("SELECT generation FROM partial_join WHERE room = ?", room);
}

void partial_join_store::insert(row_id room, const record_join& what, position at, std::int64_t generation,
                                std::int64_t now_ms) {
  std::vector<std::string> servers;
  if (!what.joined_via.empty()) servers.push_back(what.joined_via);
  add_new(servers, what.servers_in_room);
  std::erase(servers, names_.server_name(our_server));
  const auto since = what.since > 0 ? std::min(what.since, at) : at;
  db_.run("INSERT INTO partial_join(room, position, user, event_id, event, joined_via, servers_in_room, since, at_ms, "
          "generation, progress) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')",
          room, at, what.user_id, what.event_id, what.event, what.joined_via, json_list(servers), since, now_ms,
          generation);
  for (const auto& one : what.events)
    db_.run("INSERT OR REPLACE INTO join_event(room, event_id, part, event) VALUES(?, ?, ?, ?)", room, one.event_id,
            (one.in_state ? in_state : 0) | (one.in_auth_chain ? in_auth_chain : 0), one.event.view());
}

/// Another join of ours through another server may have shown more of them. True if so.
bool partial_join_store::add_servers(row_id room, const record_join& what) {
  auto all = list_of(db_.text("SELECT servers_in_room FROM partial_join WHERE room = ?", room).value_or("[]"));
  const auto before = all.size();
  if (!what.joined_via.empty()) add_new(all, {what.joined_via});
  add_new(all, what.servers_in_room);
  std::erase(all, names_.server_name(our_server));
  if (all.size() == before) return false;
  db_.run("UPDATE partial_join SET servers_in_room = ?2 WHERE room = ?1", room, json_list(all));
  return true;
}

/// Servers that share nothing with the user yet are owed its devices (L2).
void partial_join_store::share(row_id room, const record_join& what, std::int64_t now_ms,
                               std::vector<log_entry>& entries) {
  auto servers = roster_.servers_of(room);
  if (servers->empty()) return;
  const auto pos = devices_.share(what.user_id, room, now_ms);
  entries.push_back(news(entry_kind::share, pos, what.room_id, what.user_id, now_ms, std::move(servers)));
}

join_recorded partial_join_store::record(const record_join& what, std::int64_t now_ms,
                                         std::vector<log_entry>& entries) {
  join_recorded out;
  const auto room = names_.room(what.room_id);
  const auto running = generation_of(room);
  out.partial = running.has_value();
  out.generation = running.value_or(0);
  if (what.by_host && !log_.see("j|" + what.event_id, now_ms)) return out;
  drop(what.room_id, what.user_id);
  const bool ours = roster_.has_ours(room);
  const auto was = roster_.find_member(room, what.user_id);
  // A host that made the join itself may have told its user's membership before; it knows whether the room is partial.
  const bool begins = what.members_omitted && !running && (!ours || what.by_host);
  if (!ours || begins) {
    db_.run("DELETE FROM join_event WHERE room = ?", room);
    db_.run("DELETE FROM join_state WHERE room = ?", room);
  }
  const bool spans = what.members_omitted && (begins || running);
  out.at = roster_.arrive({room, what.user_id, what.event_id, what.members, !what.members_omitted,
                           spans ? what.servers_in_room : std::vector<std::string>{}},
                          now_ms);
  roster_.set_version(room, what.room_version);
  if (!what.acl.empty())
    db_.run("INSERT INTO room_acl(room, content) VALUES(?, ?) "
            "ON CONFLICT(room) DO UPDATE SET content = excluded.content",
            room, what.acl);
  if (begins) {
    out.partial = true;
    out.generation = next_generation();
    insert(room, what, out.at, out.generation, now_ms);
    entries.push_back(news(entry_kind::partial_join, out.at, what.room_id, what.user_id, now_ms, nobody()));
  } else if (running && add_servers(room, what)) {
    entries.push_back(news(entry_kind::partial_join, out.at, what.room_id, what.user_id, now_ms, nobody()));
  }
  if (!(was && was->membership == "join")) share(room, what, now_ms, entries);
  return out;
}

void partial_join_store::save_progress(const save_join_progress& what) {
  if (const auto room = names_.known_room(what.room_id))
    db_.run("UPDATE partial_join SET progress = ?3 WHERE room = ?1 AND generation = ?2", *room, what.generation,
            what.progress);
}

std::vector<partial_join_row> list_partial_joins(database& db, std::string_view room_id) {
  std::vector<partial_join_row> out;
  {
    auto rows = db.ask("SELECT r.name, r.version, p.user, p.event_id, p.event, p.joined_via, p.servers_in_room, "
                       "p.position, p.since, p.at_ms, p.generation, p.progress FROM partial_join p "
                       "JOIN room r ON r.id = p.room WHERE ?1 = '' OR r.name = ?1 ORDER BY r.name",
                       room_id);
    while (rows.step()) {
      partial_join_row row;
      row.room_id = rows.text(0);
      row.room_version = rows.text(1);
      row.user_id = rows.text(2);
      row.event_id = rows.text(3);
      row.event = rows.text(4);
      row.joined_via = rows.text(5);
      row.servers = list_of(rows.text(6));
      row.at = rows.integer(7);
      row.since = std::min(rows.integer(8) > 0 ? rows.integer(8) : row.at, row.at);
      row.since_ms = rows.integer(9);
      row.generation = rows.integer(10);
      row.progress = rows.text(11);
      out.push_back(std::move(row));
    }
  }
  for (auto& row : out) {
    auto users = db.ask("SELECT user FROM member WHERE room = (SELECT id FROM room WHERE name = ?) AND server = 1 "
                        "AND membership = 'join' ORDER BY user",
                        row.room_id);
    while (users.step())
      row.users.push_back(users.text(0));
  }
  return out;
}

std::vector<join_event> read_join_events(database& db, std::string_view room_id, bool bodies) {
  std::vector<join_event> out;
  auto rows = db.ask("SELECT event_id, part, CASE WHEN ?2 THEN event ELSE '' END FROM join_event "
                     "WHERE room = (SELECT id FROM room WHERE name = ?1) ORDER BY id",
                     room_id, bodies);
  while (rows.step()) {
    const auto part = rows.integer(1);
    out.push_back({rows.text(0), (part & in_state) != 0, (part & in_auth_chain) != 0, shared_text(rows.text(2))});
  }
  return out;
}

room_state read_room_state(database& db, std::string_view room_id) {
  room_state out;
  const auto room = db.integer("SELECT id FROM room WHERE name = ? AND has_roster = 1", room_id);
  if (!room) return out;
  out.known = true;
  out.partial = db.integer("SELECT 1 FROM partial_join WHERE room = ?", *room).has_value();
  if (out.partial) return out;
  const auto event_id = db.text("SELECT event_id FROM join_state WHERE room = ?", *room);
  if (!event_id) return out;
  out.kept = true;
  out.event_id = *event_id;
  out.state = out.auth_chain = "[";
  auto rows = db.ask("SELECT part, event FROM join_event WHERE room = ? ORDER BY id", *room);
  while (rows.step()) {
    const auto part = rows.integer(0);
    for (auto [bit, list] : {std::pair{in_state, &out.state}, std::pair{in_auth_chain, &out.auth_chain}}) {
      if ((part & bit) == 0) continue;
      if (list->size() > 1) *list += ',';
      *list += rows.view(1);
    }
  }
  out.state += ']';
  out.auth_chain += ']';
  return out;
}

} // namespace ranvier::storage
