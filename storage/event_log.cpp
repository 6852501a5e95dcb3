#include "storage/event_log.hpp"

namespace ranvier::storage {

namespace {
/// Names between line ends, so that one can be found with instr: a server name holds no line end.
std::optional<std::string> joined(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string out = "\n";
  for (const auto& name : names)
    out.append(name).append("\n");
  return out;
}
} // namespace

void event_log::reload() { head_ = saved_ = db_.integer("SELECT value FROM meta WHERE key = 'head'").value_or(0); }

void event_log::save_head() {
  if (head_ == saved_) return;
  db_.run("UPDATE meta SET value = ? WHERE key = 'head'", head_);
  saved_ = head_;
}

bool event_log::has_event(std::string_view event_id) {
  return db_.integer("SELECT 1 FROM pdu WHERE event_id = ?", event_id).has_value() ||
         db_.integer("SELECT 1 FROM seen WHERE key = 'e|' || ?", event_id).has_value();
}

position event_log::append(const event& what) {
  auto pos = next();
  db_.run("INSERT INTO pdu(position, room, event_id, explicit, exclude, at_ms, body) VALUES(?, ?, ?, ?, ?, ?, ?)", pos,
          what.room, what.event_id, what.has_destinations, joined(what.exclude), what.at_ms, what.body);
  if (!what.has_destinations) db_.run("UPDATE room SET latest = ? WHERE id = ?", pos, what.room);
  return pos;
}

void event_log::drop_event(position pos, std::int64_t now_ms) {
  db_.run("INSERT OR IGNORE INTO seen(key, at_ms, position) SELECT 'e|' || event_id, ?2, position FROM pdu "
          "WHERE position = ?1",
          pos, now_ms);
  db_.run("DELETE FROM pdu WHERE position = ?", pos);
}

void event_log::add_target(row_id server, position pos, row_id room) {
  db_.run("INSERT OR IGNORE INTO target(server, position, room) VALUES(?, ?, ?)", server, pos, room);
}

position event_log::append_to_device(row_id server, row_id message, std::string_view message_id, std::string_view body,
                                     std::int64_t at_ms) {
  auto pos = next();
  db_.run("INSERT INTO to_device(position, server, message, message_id, at_ms, body, bytes) "
          "VALUES(?, ?, ?, ?, ?, ?, ?)",
          pos, server, message, message_id, at_ms, body, static_cast<std::int64_t>(body.size()));
  return pos;
}

position event_log::append_device_entry(entry_kind kind, std::string_view user, std::string_view device, row_id room,
                                        std::int64_t at_ms) {
  auto pos = next();
  db_.run("INSERT INTO device_entry(position, kind, user, device, room, at_ms) VALUES(?, ?, ?, ?, ?, ?)", pos,
          static_cast<int>(kind), user, device, room, at_ms);
  return pos;
}

std::optional<row_id> event_log::see(std::string_view key, std::int64_t at_ms, position pos,
                                     std::string_view previous) {
  db_.run("INSERT OR IGNORE INTO seen(key, at_ms, position, previous) VALUES(?, ?, ?, ?)", key, at_ms, pos, previous);
  if (db_.changes() == 0) return {};
  return db_.last_row();
}

std::optional<seen_row> event_log::seen(std::string_view key) {
  auto row = db_.ask("SELECT position, previous FROM seen WHERE key = ?", key);
  if (!row.step()) return {};
  return seen_row{row.integer(0), row.text(1)};
}

std::int64_t event_log::forget_seen(std::int64_t before_ms, std::int64_t at_most) {
  db_.run("DELETE FROM seen WHERE id IN (SELECT id FROM seen WHERE at_ms < ? AND "
          "NOT EXISTS (SELECT 1 FROM to_device WHERE message = seen.id) ORDER BY at_ms LIMIT ?)",
          before_ms, at_most);
  return db_.changes();
}

} // namespace ranvier::storage
