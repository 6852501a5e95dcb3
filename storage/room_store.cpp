#include "storage/room_store.hpp"

#include "messages/canonical_json.hpp"

namespace ranvier::storage {

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
  db_.run("INSERT OR IGNORE INTO partial_join(room, position, user, event_id, event, joined_via, servers_in_room, since, "
          "at_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
          room, at, what.user_id, what.event_id, what.event, what.joined_via, servers, what.since, now_ms);
}

} // namespace ranvier::storage
