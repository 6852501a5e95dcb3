#include "storage/room_store.hpp"

namespace ranvier::storage {

room_view find_room(database& db, std::string_view room_id, bool with_members) {
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
  if (with_members) {
    auto rows =
        db.ask("SELECT user, membership FROM member WHERE room = ? AND membership <> 'leave' ORDER BY user", room);
    while (rows.step())
      out.members.emplace_back(rows.text(0), rows.text(1));
  }
  out.partial = db.integer("SELECT 1 FROM partial_join WHERE room = ?", room).has_value();
  out.ours_joined =
      db.integer("SELECT 1 FROM member WHERE room = ? AND server = 1 AND membership = 'join' LIMIT 1", room)
          .has_value();
  if (!with_members) return out;
  auto rows =
      db.ask("SELECT server.name FROM (SELECT DISTINCT server FROM member INDEXED BY member_joined WHERE room = ?1 "
             "AND membership = 'join' AND server > 1 UNION SELECT server FROM span WHERE ?2 AND room = ?1 "
             "AND until = 9223372036854775807) JOIN server ON server.id = server ORDER BY server.name",
             room, out.partial);
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

} // namespace ranvier::storage
