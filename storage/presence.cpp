#include "storage/presence.hpp"

#include <algorithm>

namespace ranvier::storage {

namespace {

/// What lies in the future is from before the clock was set back; it counts as of now. A gate that began to fail
/// "after" an outage of our uplink would come forward with those that the outage closed.
void clamp_to(database& db, std::int64_t now_ms) {
  db.run("UPDATE cursor SET last_success_ms = ?1 WHERE last_success_ms > ?1", now_ms);
  db.run("UPDATE gate SET failing_since_ms = ?1 WHERE failing_since_ms > ?1", now_ms);
  db.run("UPDATE meta SET value = ?1 WHERE key = 'reached_ms' AND value > ?1", now_ms);
}

} // namespace

std::int64_t begin_life(database& db, std::int64_t now_ms, std::int64_t announce_after_ms) {
  transaction whole(db);
  const auto last = db.integer("SELECT value FROM meta WHERE key = 'heartbeat_ms'").value_or(0);
  auto silence = last > 0 ? now_ms - last : 0;
  clamp_to(db, now_ms);
  if (announce_after_ms <= 0 || silence <= announce_after_ms) silence = 0;
  if (announce_after_ms <= 0) db.run("DELETE FROM meta WHERE key = 'announce_since'");
  if (silence > 0) db.run("INSERT OR REPLACE INTO meta(key, value) VALUES('announce_since', ?)", now_ms);
  write_heartbeat(db, now_ms);
  whole.commit();
  return silence;
}

void write_heartbeat(database& db, std::int64_t now_ms, std::int64_t reached_ms) {
  db.run("UPDATE meta SET value = ? WHERE key = 'heartbeat_ms'", now_ms);
  if (reached_ms > 0)
    db.run("INSERT INTO meta(key, value) VALUES('reached_ms', ?) ON CONFLICT(key) DO UPDATE SET value = "
           "excluded.value WHERE value <> excluded.value",
           std::min(reached_ms, now_ms));
}

std::int64_t announce_since(database& db) {
  return db.integer("SELECT value FROM meta WHERE key = 'announce_since'").value_or(0);
}

void end_announcement(database& db, std::int64_t since_ms) {
  db.run("DELETE FROM meta WHERE key = 'announce_since' AND value = ?", since_ms);
}

std::vector<std::string> unannounced_servers(database& db, std::int64_t since_ms, std::int64_t now_ms,
                                             std::string_view after, std::size_t limit) {
  std::vector<std::string> names;
  auto rows =
      db.ask("SELECT s.name FROM server s CROSS JOIN cursor c ON c.server = s.id "
             "WHERE s.name > ?1 AND s.id <> 1 AND c.last_success_ms < ?2 "
             "AND NOT EXISTS (SELECT 1 FROM gate g WHERE g.server = s.id AND g.lane = 0 AND g.closed) "
             "AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.server = s.id AND (h.until_ms = 0 OR h.until_ms > ?3)) "
             "ORDER BY s.name LIMIT ?4",
             after, since_ms, now_ms, static_cast<std::int64_t>(limit));
  while (rows.step())
    names.push_back(rows.text(0));
  return names;
}

std::vector<std::string> unreachable_servers(database& db, std::int64_t since_ms, std::string_view after,
                                             std::size_t limit) {
  std::vector<std::string> names;
  auto rows = db.ask("SELECT s.name FROM gate g JOIN server s ON s.id = g.server WHERE g.lane = 0 AND g.closed "
                     "AND g.closed_on_connect AND g.failing_since_ms >= ?1 AND s.name > ?2 ORDER BY s.name LIMIT ?3",
                     since_ms, after, static_cast<std::int64_t>(limit));
  while (rows.step())
    names.push_back(rows.text(0));
  return names;
}

std::int64_t latest_success(database& db) {
  return std::max(db.integer("SELECT max(last_success_ms) FROM cursor").value_or(0),
                  db.integer("SELECT value FROM meta WHERE key = 'reached_ms'").value_or(0));
}

std::int64_t first_unreachable_since(database& db, std::int64_t after_ms) {
  return db
      .integer("SELECT min(failing_since_ms) FROM gate WHERE lane = 0 AND closed AND closed_on_connect "
               "AND failing_since_ms > ?",
               after_ms)
      .value_or(0);
}

void shift_ages(database& db, std::int64_t by_ms, std::int64_t now_ms) {
  db.run("UPDATE to_device SET at_ms = at_ms + ?", by_ms);
  db.run("UPDATE seen SET at_ms = at_ms + ?", by_ms);
  db.run("UPDATE inbound SET at_ms = at_ms + ?", by_ms);
  db.run("UPDATE device_list_item SET at_ms = at_ms + ?", by_ms);
  db.run("UPDATE remote_user SET since_ms = since_ms + ?1, mentioned_ms = iif(mentioned_ms, mentioned_ms + ?1, 0), "
         "next_attempt_ms = iif(next_attempt_ms, next_attempt_ms + ?1, 0) WHERE stale OR mentioned_ms",
         by_ms);
  clamp_to(db, now_ms);
}

} // namespace ranvier::storage
