#include "storage/room_store.hpp"

#include "messages/canonical_json.hpp"

namespace ranvier::storage {

room_view find_room(database& db, std::string_view room_id) {
  room_view out;
  row_id room = 0;
  {
    auto row = db.ask("SELECT id, has_roster, version, content FROM room LEFT JOIN room_acl ON room_acl.room = room.id "
                      "WHERE name = ?",
                      room_id);
    if (!row.step()) return out;
    room = row.integer(0);
    out.known = row.integer(1) != 0;
    out.version = row.text(2);
    out.acl = row.text(3);
  }
  {
    auto rows =
        db.ask("SELECT user, membership FROM member WHERE room = ? AND membership <> 'leave' ORDER BY user", room);
    while (rows.step())
      out.members.emplace_back(rows.text(0), rows.text(1));
  }
  auto rows =
      db.ask("SELECT DISTINCT server.name FROM member INDEXED BY member_joined JOIN server ON server.id = server "
             "WHERE room = ? AND membership = 'join' AND server > 1 ORDER BY server.name",
             room);
  while (rows.step())
    out.servers.push_back(rows.text(0));
  return out;
}

std::vector<std::string> rooms_of(database& db, std::string_view server) {
  std::vector<std::string> out;
  auto rows =
      db.ask("SELECT room.name FROM span JOIN room ON room.id = span.room WHERE span.until = 9223372036854775807 "
             "AND span.server = (SELECT id FROM server WHERE name = ?) ORDER BY room.name",
             server);
  while (rows.step())
    out.push_back(rows.text(0));
  return out;
}

std::optional<std::int64_t> last_seq(database& db, std::string_view source) {
  return db.integer("SELECT seq FROM feed_source WHERE source = ?", source);
}

void room_store::apply(const server_acl_record& what) {
  db_.run("INSERT INTO room_acl(room, content) VALUES(?, ?) ON CONFLICT(room) DO UPDATE SET content = excluded.content "
          "WHERE content <> excluded.content",
          names_.room(what.room_id), what.content);
}

void room_store::apply(const room_forgotten_record& what) {
  db_.run("UPDATE room SET forgotten = max(forgotten, ?2) WHERE id = ?1", names_.room(what.room_id), what.now ? 2 : 1);
}

void room_store::apply(const partial_join_record& what, position at, std::int64_t now_ms) {
  std::string servers = "[";
  for (const auto& name : what.servers_in_room) {
    if (servers.size() > 1) servers += ',';
    append_json_string(servers, name);
  }
  servers += ']';
  auto room = names_.room(what.room_id);
  if (!what.room_version.empty()) db_.run("UPDATE room SET version = ? WHERE id = ?", what.room_version, room);
  db_.run(
      "INSERT OR IGNORE INTO partial_join(room, position, user, event_id, event, joined_via, servers_in_room, since, "
      "at_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
      room, at, what.user_id, what.event_id, what.event, what.joined_via, servers, what.since, now_ms);
}

} // namespace ranvier::storage
