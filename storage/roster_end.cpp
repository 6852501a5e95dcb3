// How what a roster left behind goes: closed spans that everybody has passed, and rooms that the host forgot.
#include "storage/extra_store.hpp"
#include "storage/owed_stretches.hpp"
#include "storage/roster_store.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {

// A span's end is often passed by no ack: the event that ended it may stand before it, and nothing is owed after it. So
// it goes too when nothing that could be owed by it stands between the cursor and its end. A share is looked for over a
// short stretch only.
constexpr std::string_view closed_spans_sql =
    "SELECT s.room, s.until, s.server, s.since, s.until <= ?1 AND (s.until <= c.pdu OR NOT EXISTS ("
    "SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = s.room AND position > c.pdu "
    "AND position <= s.until)) AND (s.until <= c.device_lists OR (s.until - c.device_lists < 1000 AND NOT EXISTS ("
    "SELECT 1 FROM device_entry d WHERE d.position > c.device_lists AND d.position <= s.until AND d.kind = 4))) "
    "FROM span s INDEXED BY span_ended JOIN cursor c ON c.server = s.server WHERE s.until < 9223372036854775807 "
    "AND (s.room, s.until, s.server, s.since) > (?2, ?3, ?4, ?5) "
    "ORDER BY s.room, s.until, s.server, s.since LIMIT ?6";

} // namespace

std::vector<row_id> roster_store::ended_by_parting(row_id room, std::string_view user) {
  auto member = find_member(room, user);
  if (!member || member->membership != "join") return {};
  auto server = row_of_server(user);
  const bool last = db_.integer("SELECT count(*) FROM (SELECT 1 FROM member INDEXED BY member_joined WHERE room = ? "
                                "AND server = ? AND membership = 'join' LIMIT 2)",
                                room, server) == 1;
  if (!last) return {};
  if (server != our_server) return has_open_span(room, server) ? std::vector<row_id>{server} : std::vector<row_id>{};
  std::vector<row_id> all;
  auto rows = db_.ask("SELECT server FROM span WHERE room = ? AND until = 9223372036854775807", room);
  while (rows.step())
    all.push_back(rows.integer(0));
  return all;
}

std::size_t roster_store::drop_passed_spans(position horizon, span_place& place, std::size_t at_most) {
  std::vector<span_place> passed;
  std::size_t looked = 0;
  {
    auto rows = db_.ask(closed_spans_sql, horizon, place.room, place.until, place.server, place.since,
                        static_cast<std::int64_t>(at_most));
    for (; rows.step(); ++looked) {
      place = {rows.integer(0), rows.integer(2), rows.integer(1), rows.integer(3)};
      if (rows.integer(4) != 0) passed.push_back(place);
    }
  }
  for (const auto& one : passed)
    db_.run("DELETE FROM span WHERE room = ? AND server = ? AND since = ?", one.room, one.server, one.since);
  place.over = looked < at_most;
  return passed.size();
}

void roster_store::forget_room(std::string_view room_id, bool now, std::int64_t now_ms) {
  auto room = names_.known_room(room_id);
  if (!room) return;
  auto at = log_.next();
  close_all(*room, at);
  auto parted = joined_users(*room);
  // Whose lists are still owed of it (list_extra) is told by who was in it.
  db_.run("UPDATE member SET membership = 'leave', changed_at = ?2 WHERE room = ?1 AND server = 1 "
          "AND membership = 'join' AND EXISTS (SELECT 1 FROM list_extra INDEXED BY list_extra_by_room WHERE room = ?1)",
          *room, at);
  db_.run("DELETE FROM member WHERE room = ?1 AND NOT (server = 1 AND EXISTS (SELECT 1 FROM list_extra INDEXED BY "
          "list_extra_by_room WHERE room = ?1))",
          *room);
  tell(*room, {}, std::move(parted), now_ms);
  db_.run("DELETE FROM room_acl WHERE room = ?", *room);
  db_.run("DELETE FROM partial_join WHERE room = ?", *room);
  db_.run("UPDATE room SET has_roster = 0, forgotten = ?2, forgotten_ms = ?3 WHERE id = ?1", *room, at,
          std::max<std::int64_t>(1, now_ms));
  if (now) let_all_go(*room);
}

/// Its events go afterwards, in small steps: from here on nobody is owed them.
void roster_store::let_all_go(row_id room) {
  extra_store extras(db_);
  std::vector<row_id> servers;
  {
    auto rows = db_.ask("SELECT s.server FROM span s JOIN cursor c ON c.server = s.server WHERE s.room = ?1 "
                        "AND s.until > c.pdu AND c.pdu < (SELECT latest FROM room WHERE id = ?1) "
                        "UNION SELECT server FROM target INDEXED BY target_by_room WHERE room = ?1 "
                        "UNION SELECT server FROM extra INDEXED BY extra_by_room WHERE room = ?1",
                        room);
    while (rows.step())
      servers.push_back(rows.integer(0));
  }
  for (auto server : servers) {
    auto cursor = db_.integer("SELECT pdu FROM cursor WHERE server = ?", server).value_or(0);
    owed_stretches owed(db_, server, names_.server_name(server), cursor, 1, room);
    auto lost = extras.count(server, room);
    for (std::size_t i = 0; i < owed.size(); ++i)
      lost += owed.total(i);
    if (lost > 0) destinations_.count_let_go(server, lost);
  }
  db_.run("DELETE FROM target WHERE (server, position) IN "
          "(SELECT server, position FROM target INDEXED BY target_by_room WHERE room = ?)",
          room);
  extras.drop_room(room);
  db_.run("DELETE FROM span WHERE room = ?", room);
  servers_.erase(room);
}

void roster_store::end_forgotten(row_id room) {
  db_.run("DELETE FROM span WHERE room = ? AND until < 9223372036854775807", room);
  db_.run("UPDATE room SET forgotten_ms = -forgotten_ms, latest = 0, version = '' WHERE id = ? AND forgotten_ms > 0",
          room);
}

std::int64_t roster_store::drop_names_of_forgotten(std::int64_t before_ms, std::size_t at_most) {
  db_.run("DELETE FROM member WHERE room IN (SELECT id FROM room INDEXED BY room_forgotten WHERE forgotten_ms <> 0 "
          "AND forgotten_ms < 0 AND has_roster = 0) AND NOT EXISTS (SELECT 1 FROM list_extra x INDEXED BY "
          "list_extra_by_room WHERE x.room = member.room)");
  db_.run("DELETE FROM room WHERE id IN (SELECT r.id FROM room r INDEXED BY room_forgotten WHERE r.forgotten_ms <> 0 "
          "AND r.forgotten_ms < 0 "
          "AND r.forgotten_ms > -?1 AND r.has_roster = 0 AND NOT EXISTS (SELECT 1 FROM span WHERE room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM member WHERE room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM target INDEXED BY target_by_room WHERE room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM pdu INDEXED BY pdu_by_room WHERE explicit = 0 AND room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM device_entry INDEXED BY device_entry_shares WHERE kind = 4 AND room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM list_extra INDEXED BY list_extra_by_room WHERE room = r.id) "
          "AND NOT EXISTS (SELECT 1 FROM partial_join WHERE room = r.id) LIMIT ?2)",
          before_ms, static_cast<std::int64_t>(at_most));
  auto went = db_.changes();
  if (went > 0) names_.forget();
  return went;
}

} // namespace ranvier::storage
