#include "storage/extra_store.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {

// The events of an extra that the server isn't excluded from. CROSS JOIN keeps the order: extras are few.
#define RANVIER_EXTRA_EVENTS                                                                                           \
  "FROM extra e CROSS JOIN pdu p INDEXED BY pdu_by_room ON p.room = e.room AND p.explicit = 0 "                        \
  "AND p.position > max(e.from_position, ?2) AND p.position <= e.to_position "                                         \
  "WHERE e.server = ?1 AND (p.exclude IS NULL OR "                                                                     \
  "instr(p.exclude, char(10) || (SELECT name FROM server WHERE id = ?1) || char(10)) = 0) "
constexpr std::string_view next_sql = "SELECT p.position, e.room " RANVIER_EXTRA_EVENTS "ORDER BY p.position LIMIT ?3";
constexpr std::string_view count_sql = "SELECT count(*) " RANVIER_EXTRA_EVENTS;
constexpr std::string_view count_room_sql = "SELECT count(*) " RANVIER_EXTRA_EVENTS "AND e.room = ?3";
constexpr std::string_view rooms_sql = "SELECT DISTINCT e.room " RANVIER_EXTRA_EVENTS;
#undef RANVIER_EXTRA_EVENTS

} // namespace

bool extra_store::any(row_id server, row_id room, position from, position to) {
  return db_
      .integer("SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = ?2 AND position > ?3 "
               "AND position <= ?4 AND (exclude IS NULL OR "
               "instr(exclude, char(10) || (SELECT name FROM server WHERE id = ?1) || char(10)) = 0) LIMIT 1",
               server, room, from, to)
      .has_value();
}

void extra_store::add(row_id server, row_id room, position from, position to) {
  to = std::min(to, db_.integer("SELECT pdu FROM cursor WHERE server = ?", server).value_or(0));
  if (from >= to || !any(server, room, from, to)) return;
  std::vector<position> touching;
  {
    auto rows = db_.ask("SELECT from_position, to_position FROM extra WHERE server = ? AND room = ?", server, room);
    while (rows.step()) {
      if (rows.integer(0) > to || rows.integer(1) < from) continue;
      touching.push_back(rows.integer(0));
      from = std::min(from, rows.integer(0));
      to = std::max(to, rows.integer(1));
    }
  }
  for (auto start : touching)
    db_.run("DELETE FROM extra WHERE server = ? AND room = ? AND from_position = ?", server, room, start);
  db_.run("INSERT INTO extra(server, room, from_position, to_position) VALUES(?, ?, ?, ?)", server, room, from, to);
}

void extra_store::acknowledge(row_id server, const std::vector<position>& went) {
  for (auto pos : went) {
    position from = 0, to = 0;
    row_id room = 0;
    {
      auto row = db_.ask("SELECT e.room, from_position, to_position FROM extra e JOIN pdu p ON p.room = e.room "
                         "WHERE e.server = ?1 AND p.position = ?2 AND from_position < ?2 AND to_position >= ?2",
                         server, pos);
      if (!row.step()) continue;
      room = row.integer(0);
      from = row.integer(1);
      to = row.integer(2);
    }
    db_.run("DELETE FROM extra WHERE server = ? AND room = ? AND from_position = ?", server, room, from);
    if (any(server, room, pos, to))
      db_.run("INSERT INTO extra(server, room, from_position, to_position) VALUES(?, ?, ?, ?)", server, room, pos, to);
  }
}

void extra_store::drop_room(row_id room) {
  db_.run("DELETE FROM extra WHERE (server, room, from_position) IN "
          "(SELECT server, room, from_position FROM extra INDEXED BY extra_by_room WHERE room = ?)",
          room);
}

std::vector<extra_store::event> extra_store::next(row_id server, position after, std::size_t limit) {
  std::vector<event> out;
  auto rows = db_.ask(next_sql, server, after, static_cast<std::int64_t>(limit));
  while (rows.step())
    out.push_back({rows.integer(0), rows.integer(1)});
  return out;
}

std::int64_t extra_store::count(row_id server) { return db_.integer(count_sql, server, 0).value_or(0); }

std::int64_t extra_store::count(row_id server, row_id room) {
  return db_.integer(count_room_sql, server, 0, room).value_or(0);
}

std::vector<row_id> extra_store::rooms(row_id server, position after) {
  std::vector<row_id> out;
  auto rows = db_.ask(rooms_sql, server, after);
  while (rows.step())
    out.push_back(rows.integer(0));
  return out;
}

void acknowledge_list_extras(database& db, row_id server, const std::vector<std::pair<row_id, position>>& went) {
  for (const auto& [room, through] : went) {
    db.run("UPDATE list_extra SET from_position = max(from_position, ?3) WHERE server = ?1 AND room = ?2", server, room,
           through);
    db.run("DELETE FROM list_extra WHERE server = ? AND room = ? AND from_position >= to_position", server, room);
  }
}

} // namespace ranvier::storage
