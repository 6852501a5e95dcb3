// Where an event is, and how a user's device list stands.
#include "messages/canonical_json.hpp"
#include "messages/ids.hpp"
#include "storage/extra_store.hpp"
#include "storage/introspection.hpp"
#include "storage/owed_stretches.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ranvier::storage {

namespace {

std::string text_member(const json_document& document, std::string_view name) {
  std::string_view text;
  if (document.root()[name].get(text)) return {};
  return std::string(text);
}

/// Rule K lets it go: newer events of its room go instead.
bool is_let_go(database& db, row_id server, const std::string& name, position cursor, position pos, row_id room,
               std::int64_t newest_kept) {
  owed_stretches owed(db, server, name, cursor, newest_kept, room);
  for (std::size_t i = 0; i < owed.size(); ++i)
    for (const auto& one : owed.at(i).stretches)
      if (pos > one.from && pos <= one.to) return pos < owed.first_kept(i);
  return false;
}

} // namespace

event_trace trace(database& db, const trace_event& what, std::int64_t newest_kept) {
  event_trace out;
  row_id room = 0;
  bool explicit_only = false;
  {
    auto row = db.ask("SELECT p.position, p.room, r.name, p.explicit, p.at_ms, p.body FROM pdu p JOIN room r "
                      "ON r.id = p.room WHERE p.event_id = ?",
                      what.event_id);
    if (row.step()) {
      out.known = out.stored = true;
      out.pos = row.integer(0);
      room = row.integer(1);
      out.room_id = row.text(2);
      explicit_only = row.integer(3) != 0;
      out.at_ms = row.integer(4);
      const json_document event(row.text(5));
      out.type = text_member(event, "type");
      out.sender = text_member(event, "sender");
    }
  }
  if (!out.known) {
    auto row = db.ask("SELECT position, at_ms FROM seen WHERE key = 'e|' || ?", what.event_id);
    if (!row.step()) return out;
    out.known = true;
    out.pos = row.integer(0);
    out.at_ms = row.integer(1);
    return out;
  }
  std::map<std::string, owed_server> servers;
  // A target goes when its server's cursor has passed it; a span that ended likewise.
  auto targets = db.ask("SELECT n.name FROM target t INDEXED BY target_by_room JOIN server n ON n.id = t.server "
                        "WHERE t.room = ? AND t.position = ?",
                        room, out.pos);
  while (targets.step())
    servers[targets.text(0)] = {targets.text(0), true, false};
  if (!explicit_only) {
    auto spans = db.ask(
        "SELECT n.name, n.id, c.pdu FROM span s JOIN server n ON n.id = s.server JOIN cursor c ON c.server = s.server "
        "WHERE s.room = ?1 AND s.since <= ?2 AND s.until >= ?2 AND instr(ifnull((SELECT exclude FROM pdu WHERE "
        "position = ?2), ''), char(10) || n.name || char(10)) = 0",
        room, out.pos);
    while (spans.step()) {
      const auto name = spans.text(0);
      const bool waits = spans.integer(2) < out.pos;
      const bool gone = waits && is_let_go(db, spans.integer(1), name, spans.integer(2), out.pos, room, newest_kept);
      servers[name] = {name, waits, gone};
    }
  }
  auto extras = db.ask("SELECT n.name FROM extra x INDEXED BY extra_by_room JOIN server n ON n.id = x.server "
                       "WHERE x.room = ?1 AND x.from_position < ?2 AND x.to_position >= ?2",
                       room, out.pos);
  while (extras.step())
    servers[extras.text(0)] = {extras.text(0), true, false};
  for (auto& [name, one] : servers)
    out.servers.push_back(std::move(one));
  return out;
}

room_trace trace(database& db, const trace_room& what, std::int64_t newest_kept) {
  room_trace out;
  row_id room = 0;
  {
    auto row = db.ask("SELECT id, version, EXISTS (SELECT 1 FROM partial_join p WHERE p.room = room.id) FROM room "
                      "WHERE name = ? AND forgotten_ms = 0",
                      what.room_id);
    if (!row.step()) return out;
    out.known = true;
    room = row.integer(0);
    out.version = row.text(1);
    out.partial = row.integer(2) != 0;
  }
  extra_store extras(db);
  auto rows = db.ask("SELECT n.name, n.id, c.pdu, max(s.until) FROM span s JOIN server n ON n.id = s.server "
                     "JOIN cursor c ON c.server = s.server WHERE s.room = ? GROUP BY n.id ORDER BY n.name",
                     room);
  while (rows.step()) {
    room_server one{rows.text(0), extras.count(rows.integer(1), room)};
    owed_stretches owed(db, rows.integer(1), one.server, rows.integer(2), newest_kept, room);
    for (std::size_t i = 0; i < owed.size(); ++i)
      one.behind += owed.kept(i);
    if (one.behind > 0 || rows.integer(3) == std::numeric_limits<position>::max())
      out.servers.push_back(std::move(one));
  }
  return out;
}

namespace {

void add_rooms(database& db, const trace_user& what, bool ours, row_id server, user_trace& out) {
  auto rows = ours ? db.ask("SELECT r.name, EXISTS (SELECT 1 FROM partial_join p WHERE p.room = r.id) FROM member m "
                            "INDEXED BY member_ours JOIN room r ON r.id = m.room WHERE m.user = ?1 AND m.server = 1 "
                            "AND m.membership = 'join' ORDER BY r.name LIMIT ?2",
                            what.user, static_cast<std::int64_t>(what.limit))
                   : db.ask("SELECT r.name, EXISTS (SELECT 1 FROM partial_join p WHERE p.room = r.id) FROM member m "
                            "JOIN room r ON r.id = m.room JOIN span s ON s.room = m.room AND s.server = m.server "
                            "AND s.until = 9223372036854775807 WHERE m.user = ?1 AND m.server = ?2 "
                            "AND m.membership = 'join' ORDER BY r.name LIMIT ?3",
                            what.user, server, static_cast<std::int64_t>(what.limit));
  while (rows.step()) {
    out.rooms.push_back(rows.text(0));
    if (rows.integer(1) != 0) out.partial_rooms.push_back(rows.text(0));
  }
}

/// Rooms that are partially joined and may have a user of that server.
void add_possible_rooms(database& db, row_id server, user_trace& out) {
  auto rows = db.ask("SELECT r.name FROM partial_join p JOIN room r ON r.id = p.room JOIN span s ON s.room = p.room "
                     "AND s.server = ? AND s.until = 9223372036854775807",
                     server);
  while (rows.step())
    if (std::find(out.partial_rooms.begin(), out.partial_rooms.end(), rows.text(0)) == out.partial_rooms.end())
      out.partial_rooms.push_back(rows.text(0));
}

void trace_ours(database& db, const trace_user& what, user_trace& out) {
  std::int64_t latest = 0;
  {
    auto row = db.ask("SELECT version, latest FROM local_user WHERE user = ?", what.user);
    if (row.step()) {
      out.known = true;
      out.version = row.integer(0);
      latest = row.integer(1);
    }
  }
  auto rows =
      db.ask("SELECT n.name, c.device_lists FROM (SELECT DISTINCT s.server FROM member m INDEXED BY "
             "member_ours CROSS JOIN span s ON s.room = m.room AND s.until = 9223372036854775807 "
             "WHERE m.user = ?1 AND m.server = 1 AND m.membership = 'join') x "
             "CROSS JOIN cursor c ON c.server = x.server CROSS JOIN server n ON n.id = x.server ORDER BY n.name",
             what.user);
  while (rows.step()) {
    ++out.servers;
    if (rows.integer(1) >= latest) continue;
    ++out.lacking_total;
    if (out.lacking.size() < what.limit) out.lacking.push_back(rows.text(0));
  }
}

} // namespace

user_trace trace(database& db, const trace_user& what) {
  user_trace out;
  out.server = std::string(server_of(what.user));
  const auto server = db.integer("SELECT id FROM server WHERE name = ?", out.server).value_or(0);
  out.ours = server == 1;
  add_rooms(db, what, out.ours, server, out);
  out.known = !out.rooms.empty();
  if (out.ours) {
    trace_ours(db, what, out);
    return out;
  }
  if (server != 0) add_possible_rooms(db, server, out);
  auto row = db.ask("SELECT held, stale, too_large, cause, problem, since_ms, next_attempt_ms, failures "
                    "FROM remote_user WHERE user = ?",
                    what.user);
  if (row.step()) {
    out.known = out.tracked = true;
    out.held = row.integer(0) != 0;
    out.stale = row.integer(1) != 0;
    out.too_large = row.integer(2) != 0;
    if (out.stale) {
      out.cause = row.text(3);
      out.problem = row.text(4);
      out.since_ms = row.integer(5);
      out.next_attempt_ms = row.integer(6);
      out.failures = row.integer(7);
    }
  }
  out.kept_updates = std::size_t(db.integer("SELECT count(*) FROM kept_update WHERE user = ?", what.user).value_or(0));
  out.known = out.known || out.kept_updates > 0;
  return out;
}

} // namespace ranvier::storage
